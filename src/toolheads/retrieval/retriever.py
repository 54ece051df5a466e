"""The retriever: one immutable state that searches read and updates replace."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from toolheads.domain import Tool
from toolheads.retrieval.answer import Answer, Status, Update


class Retriever:
    """Finds tools. Safe to share between threads; searches wait for no lock.

    Made by `toolheads.load_retriever`.
    """

    def search(
        self,
        text: str,
        k: int | None = None,
        *,
        scope: str = "",
        conversation: str | None = None,
        deadline_s: float | None = None,
        sources: Collection[str] | None = None,
    ) -> Answer:
        """Find the tools for one query.

        Args:
            text: The query as a person or a model writes it.
            k: How many; None lets the cut-off decide, which may be none at all. Tools that the
                query names come on top of either where they would be cut off.
            scope: Whose query it is; vectors of queries are cached for each scope apart.
            conversation: Keeps the set and order of tools stable over the searches of one
                conversation: tools shown before stay in place, new ones come after them.
            deadline_s: Longest wait for the query's vector; None takes that of the settings,
                0 waits for nothing: without a cached vector words answer.
            sources: Servers (`Tool.server`) that may be searched; None searches all.

        Raises:
            ConfigError: If the text is blank or no valid Unicode, or k < 1.
        """
        raise NotImplementedError

    def is_quick(self, text: str, *, scope: str = "") -> bool:
        """Whether a search for this text would not wait for the encoder."""
        raise NotImplementedError

    def rank(
        self,
        text: str,
        tools: Sequence[Tool],
        k: int | None = None,
        *,
        scope: str = "",
        deadline_s: float | None = None,
    ) -> Answer:
        """Rank tools of the caller's own, best first; None for k ranks all."""
        raise NotImplementedError

    def tool(self, name: str, *, sources: Collection[str] | None = None) -> Tool | None:
        """The tool with this id, api name, or plain name if it is the only one."""
        raise NotImplementedError

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are served, by id."""
        raise NotImplementedError

    @property
    def catalogue_digest(self) -> str:
        """Digest of the tools that are served."""
        raise NotImplementedError

    def update(self, tools: Sequence[Tool]) -> Update:
        """Serve other tools; returns once searches see them.

        Raises:
            ConfigError: If two tools have one id; the old tools stay.
        """
        raise NotImplementedError

    def follow(self, folder: str | os.PathLike[str]) -> None:
        """Serve the catalogue in a folder from now on, and take over its changes."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop following."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every tool is embedded; whether that is so."""
        raise NotImplementedError

    def status(self) -> Status:
        """How it is; never waits."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop following and all threads, and write what makes the next start quick."""
        raise NotImplementedError

