"""What a server does of reranking, planning and deciding, whatever door a request came through."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from toolheads.retrieval import Retriever
from toolheads.serving.access import Asker
from toolheads.serving.aids import Aids
from toolheads.serving.choices import Choices
from toolheads.serving.metrics import Metrics
from toolheads.serving.recording import Recording
from toolheads.serving.settings import ServeSettings
from toolheads.serving.shown import ShownTools
from toolheads.serving.workers import Workers


class Choosing:
    """The use cases of `Choices`, in threads, recorded and counted. Used from one event loop.

    Args:
        retriever: Finds tools.
        aids: Thresholds of decisions, and a chat model; closed with this.
        settings: Limits.
        ranking: Threads for what does not wait for a chat model.
        shown: Remembers which tools a decision showed.
        recording: Takes decisions.
        metrics: Counts them.
    """

    def __init__(
        self,
        retriever: Retriever,
        aids: Aids,
        settings: ServeSettings,
        *,
        ranking: Workers,
        shown: ShownTools,
        recording: Recording,
        metrics: Metrics,
    ) -> None:
        self._retriever, self._aids = retriever, aids
        self._choices = Choices(retriever, aids)
        self._ranking = ranking
        self._asking = Workers(settings.llm_workers, "toolheads-llm")
        self._shown, self._recording, self._metrics = shown, recording, metrics

    async def decide(
        self,
        asker: Asker,
        need: str,
        settings: Mapping[str, Any] | None = None,
        *,
        shortlist: int | None = None,
        is_full: bool = False,
    ) -> dict[str, Any]:
        """Decide which one tool a need names. See `Choices.decide`.

        A decision shows tools as a search does, so it is recorded as one, and calls are linked to
        it.

        Returns:
            `DecideAnswer` of `serving.schemas`.
        """
        asker.access.check("search")
        start = time.perf_counter()
        decided = await self._ranking.run(
            lambda: self._choices.decide(
                asker, need, settings, shortlist=shortlist, is_full=is_full
            )
        )
        search_id = secrets.token_hex(12)
        listed = [*decided["tools"], *decided.get("shortlist", ())]
        shown = list(dict.fromkeys(tool["id"] for tool in listed))
        self._shown.add(search_id, asker.access.name, asker.session, shown)
        seconds = time.perf_counter() - start
        mode = "lexical" if self._retriever.subject is None else "dense"
        self._metrics.search(mode, asker.via, seconds, is_empty=not shown)
        self._recording.search(
            asker,
            search_id,
            need,
            shown,
            mode=mode,
            catalogue=self._retriever.catalogue_digest,
            took_ms=seconds * 1e3,
        )
        return {"search_id": search_id} | decided | {"took_ms": round(seconds * 1e3, 3)}

    async def rerank(
        self,
        asker: Asker,
        message: str | Sequence[Mapping[str, Any]],
        *,
        method: str,
        **wanted: Any,
    ) -> dict[str, Any]:
        """Choose the tools for one turn. See `Choices.rerank`.

        A chat model is waited for in threads of its own. When all are taken, shared words choose.
        """
        asker.access.check("search")
        start = time.perf_counter()

        def chosen(*, is_busy: bool = False) -> dict[str, Any]:
            return self._choices.rerank(asker, message, method=method, is_busy=is_busy, **wanted)

        answer = None
        if method == "llm":
            answer = await self._asking.run_soon(chosen)
        if answer is None:
            answer = await self._ranking.run(lambda: chosen(is_busy=True))
        return answer | {"took_ms": round((time.perf_counter() - start) * 1e3, 3)}

    async def plan(self, asker: Asker, **wanted: Any) -> dict[str, Any]:
        """Plan how the catalogue is shown, in a thread. See `Choices.plan`."""
        asker.access.check("search")
        start = time.perf_counter()
        planned = await self._ranking.run(lambda: self._choices.plan(asker, **wanted))
        return planned | {"took_ms": round((time.perf_counter() - start) * 1e3, 3)}

    def close(self) -> None:
        """Let the threads end, and close the chat model."""
        self._asking.close()
        self._aids.close()
