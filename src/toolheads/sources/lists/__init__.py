"""Lists of tools of other frameworks, and Python functions: read as tools, written out again.

Each `from_…` gives tools, each `to_…` writes them in that framework's form. What a form has no
name for is kept and goes out again with the same form.
"""

from toolheads.sources.lists.anthropic import from_anthropic, to_anthropic
from toolheads.sources.lists.functions import from_function
from toolheads.sources.lists.langchain import from_langchain, to_langchain
from toolheads.sources.lists.mcp import from_mcp, to_mcp
from toolheads.sources.lists.naming import object_schema, provider_names
from toolheads.sources.lists.openai import from_openai, to_openai

__all__ = [
    "from_anthropic",
    "from_function",
    "from_langchain",
    "from_mcp",
    "from_openai",
    "object_schema",
    "provider_names",
    "to_anthropic",
    "to_langchain",
    "to_mcp",
    "to_openai",
]
