"""Finding tools in a catalogue that changes, with an encoder that may fail.

`Retriever` is the use case that joins a scorer, an index of rows and the tools; it knows ports,
and no file format but that of its own warm state.
"""

from toolheads.retrieval.answer import Answer, Circuit, Mode, Status, Update
from toolheads.retrieval.retriever import Retriever
from toolheads.retrieval.settings import RetrieverSettings

__all__ = [
    "Answer",
    "Circuit",
    "Mode",
    "Retriever",
    "RetrieverSettings",
    "Status",
    "Update",
]
