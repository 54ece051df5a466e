"""The server: MCP and REST on one retriever, behind one guard.

`app` joins the parts, `listen` and `stdio` run them, `service` is what every door calls. Imported
late, by entry points alone.
"""

from toolheads.serving.access import Access, Keys, load_keys
from toolheads.serving.app import create_app
from toolheads.serving.listen import bind, check_exposure, run_http
from toolheads.serving.settings import ServeSettings
from toolheads.serving.stdio import run_stdio

__all__ = [
    "Access",
    "Keys",
    "ServeSettings",
    "bind",
    "check_exposure",
    "create_app",
    "load_keys",
    "run_http",
    "run_stdio",
]
