"""The usage log: which tools a search showed and which were called after it. Plain data, no model.

`events` says what a line is, `files` writes and reads the files, `links` joins calls to searches,
`requests` makes judged requests of them, `parts` splits these by time. `recorder` writes beside a
running service, with `digests` in place of texts and `retention` for what is kept.
"""

from toolheads.usage.events import Call, Search, text_digest
from toolheads.usage.files import UsageLog, UsageWriter, read_usage
from toolheads.usage.links import LinkedSearch, Links, link
from toolheads.usage.parts import Parts, PartSettings, split_by_time
from toolheads.usage.recorder import RecorderStatus, UsageRecorder
from toolheads.usage.requests import JudgedRequest, merge
from toolheads.usage.retention import Retention

__all__ = [
    "Call",
    "JudgedRequest",
    "LinkedSearch",
    "Links",
    "PartSettings",
    "Parts",
    "RecorderStatus",
    "Retention",
    "Search",
    "UsageLog",
    "UsageRecorder",
    "UsageWriter",
    "link",
    "merge",
    "read_usage",
    "split_by_time",
    "text_digest",
]
