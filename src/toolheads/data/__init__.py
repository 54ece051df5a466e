"""Tools and queries as files: reading, writing, splitting, and finding leaks between splits."""

from toolheads.data.datasets import Dataset, read_dataset, read_datasets
from toolheads.data.files import read_queries, read_tools, write_queries, write_tools

__all__ = [
    "Dataset",
    "read_dataset",
    "read_datasets",
    "read_queries",
    "read_tools",
    "write_queries",
    "write_tools",
]
