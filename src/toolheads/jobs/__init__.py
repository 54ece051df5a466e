"""Offline jobs over more tools than fit into memory: a fresh index by morning."""

from toolheads.jobs.cluster import Cluster
from toolheads.jobs.pointer import Current, open_current, read_current
from toolheads.jobs.reindexing import Report, reindex
from toolheads.jobs.target import Target

__all__ = ["Cluster", "Current", "Report", "Target", "open_current", "read_current", "reindex"]
