"""What goes into the usage log: searches and calls, with digests in place of what was written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from toolheads.serving.access import Asker
from toolheads.usage import Call, Search, UsageRecorder

_SESSION_DIGITS = 32


class Recording:
    """Makes events and hands them on.

    Args:
        usage: Takes events; None records nothing.
        heads: sha256 of the heads that rank; empty where none do.
    """

    def __init__(self, usage: UsageRecorder | None, heads: str) -> None:
        self._usage, self._heads = usage, heads

    def search(
        self,
        asker: Asker,
        search_id: str,
        query: str,
        shown: Sequence[str],
        *,
        mode: str,
        catalogue: str,
        took_ms: float,
    ) -> None:
        """Record a search, or a decision, which shows tools too."""
        if self._usage is None:
            return
        self._usage.record(
            Search(
                time=datetime.now(UTC),
                search_id=search_id,
                session=self._session(self._usage, asker),
                shown=tuple(shown),
                text=query if self._usage.keeps_texts else None,
                digest=self._usage.digest("query", query),
                heads=self._heads if mode == "dense" else "",
                mode=mode,
                catalogue=catalogue,
                client=asker.access.name,
                via=asker.via,
                took_ms=round(took_ms, 3),
            )
        )

    def call(
        self,
        asker: Asker,
        tool_id: str,
        call_id: str,
        search_id: str | None,
        *,
        error: str,
        took_ms: float | None,
        arguments: Mapping[str, Any] | None = None,
        via: str | None = None,
    ) -> None:
        """Record a call.

        Args:
            asker: Who called.
            tool_id: The tool.
            call_id: Id of the call.
            search_id: The search that it followed, if that is known.
            error: Kind of the error; empty if there was none.
            took_ms: How long it took, if that is known.
            arguments: JSON values; None where they are not known.
            via: The door, if it is not that of the asker.
        """
        if self._usage is None:
            return
        text = None if arguments is None else json.dumps(arguments, sort_keys=True, default=dict)
        self._usage.record(
            Call(
                time=datetime.now(UTC),
                tool_id=tool_id,
                ok=not error,
                search_id=search_id or "",
                session=self._session(self._usage, asker),
                error=error,
                call_id=call_id,
                arguments=text if self._usage.keeps_texts else None,
                arguments_digest="" if text is None else self._usage.digest("arguments", text),
                client=asker.access.name,
                via=via or asker.via,
                took_ms=None if took_ms is None else round(took_ms, 3),
            )
        )

    def _session(self, usage: UsageRecorder, asker: Asker) -> str:
        return usage.digest("session", asker.session)[:_SESSION_DIGITS]
