"""Pick, out of thousands of tools, the few that a request needs.

    scorer = toolheads.load_scorer("minilm")
    scorer.index(toolheads.read_tools("tools.jsonl"))
    hits = scorer.search("book a flight to Izmir")

Importing this package loads numpy and nothing heavier.
"""

from toolheads.bootstrap import EncoderSettings, encoder, make_encoder
from toolheads.client import AsyncClient, Client
from toolheads.cutoff import CutoffSettings
from toolheads.data import (
    Dataset,
    read_dataset,
    read_datasets,
    read_queries,
    read_tools,
    write_queries,
    write_tools,
)
from toolheads.domain import Hit, Query, Tool
from toolheads.embedder import Embedder
from toolheads.errors import (
    BackboneMismatchError,
    CacheError,
    CalibrationError,
    ChatError,
    ClientError,
    ConfigError,
    DataError,
    DigestError,
    DownloadError,
    EncoderError,
    EngineError,
    HeadsFormatError,
    IndexStoreError,
    MissingExtraError,
    ShapeError,
    SourceError,
    ToolheadsError,
)
from toolheads.facade import load_retriever, load_scorer
from toolheads.heads import (
    Architecture,
    Head,
    Heads,
    HeadsHeader,
    Views,
    load_heads,
    packaged_heads,
    save_heads,
)
from toolheads.identity import EncoderIdentity, Fingerprint
from toolheads.ports import Encoder, Scorer
from toolheads.retrieval import Answer, Retriever, RetrieverSettings
from toolheads.scorers.bm25 import BM25Scorer
from toolheads.scorers.clm import CLMScorer
from toolheads.scorers.dense import DenseScorer
from toolheads.scorers.hybrid import HybridScorer
from toolheads.texts import TextSettings

__all__ = [
    "Answer",
    "Architecture",
    "AsyncClient",
    "BM25Scorer",
    "BackboneMismatchError",
    "CLMScorer",
    "CacheError",
    "CalibrationError",
    "ChatError",
    "Client",
    "ClientError",
    "ConfigError",
    "CutoffSettings",
    "DataError",
    "Dataset",
    "DenseScorer",
    "DigestError",
    "DownloadError",
    "Embedder",
    "Encoder",
    "EncoderError",
    "EncoderIdentity",
    "EncoderSettings",
    "EngineError",
    "Fingerprint",
    "Head",
    "Heads",
    "HeadsFormatError",
    "HeadsHeader",
    "Hit",
    "HybridScorer",
    "IndexStoreError",
    "MissingExtraError",
    "Query",
    "Retriever",
    "RetrieverSettings",
    "Scorer",
    "ShapeError",
    "SourceError",
    "TextSettings",
    "Tool",
    "ToolheadsError",
    "Views",
    "encoder",
    "load_heads",
    "load_retriever",
    "load_scorer",
    "make_encoder",
    "packaged_heads",
    "read_dataset",
    "read_datasets",
    "read_queries",
    "read_tools",
    "save_heads",
    "write_queries",
    "write_tools",
]
