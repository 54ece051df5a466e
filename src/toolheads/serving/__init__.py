"""The server: MCP and REST on one retriever, behind one guard.

`app` joins the parts, `listen` and `stdio` run them, `service` is what every door calls. Imported
late, by entry points alone.
"""

from toolheads.serving.access import Access, Keys, load_keys
from toolheads.serving.aids import Aids
from toolheads.serving.app import create_app
from toolheads.serving.backends import calls_of, list_into
from toolheads.serving.heaps import give_back_after_changes
from toolheads.serving.listen import address_of, bind, check_exposure, host_names, run_http
from toolheads.serving.settings import MCP_TOOLS, ServeSettings
from toolheads.serving.stdio import run_stdio

__all__ = [
    "MCP_TOOLS",
    "Access",
    "Aids",
    "Keys",
    "ServeSettings",
    "address_of",
    "bind",
    "calls_of",
    "check_exposure",
    "create_app",
    "give_back_after_changes",
    "host_names",
    "list_into",
    "load_keys",
    "run_http",
    "run_stdio",
]
