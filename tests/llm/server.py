"""A real chat model for the tests: one that runs already, or one that is started here.

TOOLHEADS_LLM_URL and TOOLHEADS_LLM_MODEL name a running server (its key, if it asks for one, is in
TOOLHEADS_API_KEY). Without them llama.cpp's server is started, if the packages of
`requirements-llm.txt` are installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.rerank.llm_server import MODEL, LlmServer, NoLlmServerError, started

from toolheads.rerank import ChatSettings, OpenAIChat

CONTEXT = 4096
"""Tokens that a server started here can read."""


@dataclass(frozen=True)
class RunningLlm:
    settings: ChatSettings
    own: LlmServer | None
    """None for one that ran already."""

    @contextmanager
    def chat(self, kind: type[OpenAIChat] = OpenAIChat, **settings: Any) -> Iterator[OpenAIChat]:
        """The model, with other settings where some are given. Slow machines get their time."""
        with closing(kind(replace(self.settings, **settings), deadline_s=120)) as chat:
            yield chat


@contextmanager
def running_llm(logs: Path) -> Iterator[RunningLlm]:
    """The server, or a skip that says what to do."""
    url, model = os.environ.get("TOOLHEADS_LLM_URL"), os.environ.get("TOOLHEADS_LLM_MODEL")
    if url and model:
        yield RunningLlm(ChatSettings(url, model), None)
        return
    try:
        with started(logs / "llama-server.log", context=CONTEXT) as own:
            # A reply that is held to nothing may go on and on; these tests wait for none of it.
            settings = ChatSettings(own.url, MODEL, own.api_key, {"max_tokens": 64})
            yield RunningLlm(settings, own)
    except NoLlmServerError as e:
        pytest.skip(f"no chat model: {e}, or set TOOLHEADS_LLM_URL and TOOLHEADS_LLM_MODEL")
