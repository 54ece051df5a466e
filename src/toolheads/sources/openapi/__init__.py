"""OpenAPI descriptions as tools.

`read_openapi` reads one from a file or an address, `read_openapi_source` for a source of a
catalogue. How such a tool is called stands in `extra["http"]`, see
`toolheads.sources.openapi.operation`; calling is for `toolheads.calls`.
"""

from toolheads.sources.openapi.budget import DEFAULT_BYTES
from toolheads.sources.openapi.listing import Listing, Skipped
from toolheads.sources.openapi.reading import read_openapi, read_openapi_source

__all__ = ["DEFAULT_BYTES", "Listing", "Skipped", "read_openapi", "read_openapi_source"]
