"""What a model is to see of the catalogue: tools for a turn, a plan, one tool or none.

Knows no HTTP: plain values in, JSON values out. Blocks, so it runs in worker threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from toolheads.decide import Picker, PickerSettings, RowSimilarity, Similarity, WordSimilarity
from toolheads.domain import Hit, Query, Tool
from toolheads.errors import CalibrationError, EncoderError, IndexStoreError, ToolheadsError
from toolheads.plan import plan_catalogue
from toolheads.rerank import Reranker, RerankSettings
from toolheads.retrieval import Retriever
from toolheads.serving.access import Asker
from toolheads.serving.aids import Aids, Busy, Discreet
from toolheads.serving.api_error import ApiError
from toolheads.serving.records import found_record, listed_record

_KEPT = 8
"""Prepared catalogues that are kept: one for each set of sources that a key may see."""

_Made = TypeVar("_Made")


class Choices:
    """Chooses among the tools that a client may see.

    Args:
        retriever: Holds the tools, and ranks them by heads.
        aids: Thresholds, and a chat model.
    """

    def __init__(self, retriever: Retriever, aids: Aids) -> None:
        self._retriever, self._aids = retriever, aids
        self._chat = None if aids.chat is None else Discreet(aids.chat)
        self._prepared: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def rerank(
        self,
        asker: Asker,
        message: str | Sequence[Mapping[str, Any]],
        *,
        method: str,
        top_n: int,
        pinned: Sequence[str],
        is_busy: bool = False,
    ) -> dict[str, Any]:
        """Choose the tools for one turn. See `RerankAnswer` of `serving.schemas`.

        With `is_busy` the chat model is not asked, since it has no place for one more call.
        """
        tools = self._visible(asker)
        scorer = _RetrieverScorer(self._retriever, asker)
        settings = RerankSettings(method=method, top_n=top_n, llm=self._aids.llm)  # type: ignore[arg-type]  # checked

        def reranked() -> Any:
            if method == "heads":  # whose scorer is the asker's own
                return Reranker(tools, settings, scorer=scorer)
            if method == "llm":
                chat = Busy() if is_busy and self._chat is not None else self._chat
                return Reranker(tools, settings, scorer=scorer, chat=chat)
            key = ("rerank", method, top_n)
            return self._kept(asker, key, lambda: Reranker(tools, settings))

        answer = _checked(lambda: reranked().rerank(message, pinned=tuple(pinned)))
        return {
            "tools": [listed_record(tool) for tool in answer.tools],
            "report": answer.report.to_json(),
        }

    def plan(self, asker: Asker, **wanted: Any) -> dict[str, Any]:
        """Plan how the catalogue is disclosed. See `PlanAnswer` of `serving.schemas`."""
        tools = self._visible(asker)
        given = {name: value for name, value in wanted.items() if value is not None}
        plan = _checked(lambda: plan_catalogue(tools, **given))
        return plan.to_json()

    def decide(
        self,
        asker: Asker,
        need: str,
        settings: Mapping[str, Any] | None,
        *,
        shortlist: int | None = None,
        is_full: bool = False,
    ) -> dict[str, Any]:
        """Decide which one tool a need names. See `DecideAnswer` of `serving.schemas`.

        Args:
            asker: Who needs it.
            need: What is needed.
            settings: Thresholds; None takes those of the server.
            shortlist: Most tools of a list of those that are worth a look; None gives no list.
            is_full: Whether tools are given as a search gives them, with input schemas.
        """
        tools = self._visible(asker)
        scorer = _RetrieverScorer(self._retriever, asker)

        def decision() -> dict[str, Any]:
            thresholds = (
                self._aids.settings(scorer, tools)
                if settings is None
                else PickerSettings.from_json(dict(settings))
            )
            # Similarities of tools are the costly part; they depend on no threshold, but on the
            # rows that are there.
            key = ("decide", self._retriever.status().pending)
            kept = self._kept(
                asker, key, lambda: Picker(tools, scorer, thresholds, similarity=self._similarity)
            )
            picker = kept.with_scorer(scorer).with_settings(thresholds)
            decided = picker.resolve(need)
            answer = decided.to_json()
            listed = () if shortlist is None else picker.shortlist(need, shortlist)
            if is_full:
                answer["tools"] = [_full(hit) for hit in decided.hits]
            if shortlist is not None:
                answer["shortlist"] = [_full(hit) if is_full else _brief(hit) for hit in listed]
            return answer | {"settings": thresholds.to_json()}

        return _checked(decision)

    def _similarity(self, tools: Sequence[Tool]) -> Similarity:
        """By rows, as a scorer over vectors compares tools; by words where there are none."""
        rows = self._retriever.rows(tools)
        return WordSimilarity(tools) if rows is None else RowSimilarity(rows)

    def _visible(self, asker: Asker) -> tuple[Tool, ...]:
        sources = asker.access.sources
        tools = self._retriever.tools
        seen = tools if sources is None else tuple(t for t in tools if t.server in sources)
        if not seen:
            raise ApiError("unavailable", "the catalogue must hold a tool, got none yet")
        return tuple(seen)

    def _kept(self, asker: Asker, what: tuple[Any, ...], make: Callable[[], _Made]) -> _Made:
        """What was made for this catalogue and these sources before, or made now."""
        sources = asker.access.sources
        seen = None if sources is None else tuple(sorted(sources))
        key = (self._retriever.catalogue_digest, seen, *what)
        with self._lock:
            if key in self._prepared:
                self._prepared.move_to_end(key)
                found: _Made = self._prepared[key]
                return found
        made = make()
        with self._lock:
            self._prepared[key] = made
            while len(self._prepared) > _KEPT:
                self._prepared.popitem(last=False)
        return made


class _RetrieverScorer:
    """The retriever as a scorer of the tools that one client may see. See `ports.Scorer`."""

    name = "retriever"

    def __init__(self, retriever: Retriever, asker: Asker) -> None:
        self._retriever, self._access = retriever, asker.access

    def index(self, tools: Sequence[Tool]) -> None:
        """Nothing: the retriever holds the tools."""

    def rank(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """Rank tools by vectors; words alone have other scores, and are refused."""
        return [self._ranked(query.text, k) for query in queries]

    def calibration_subject(self) -> Mapping[str, Any]:
        """That of the scores by vectors, as any scorer over the same vectors has it."""
        return self._retriever.subject or {}

    def _ranked(self, text: str, k: int) -> list[Hit]:
        answer = self._retriever.search(
            text,
            k,
            scope=self._access.name,
            sources=self._access.sources,
            may_be_nothing=False,  # what is too far from the need is said by the thresholds
        )
        if answer.mode == "lexical" and answer.reason is not None:
            msg = f"the retriever must rank by vectors, got words alone: {answer.reason}"
            raise EncoderError(msg)
        return list(answer.hits)[:k]


def _full(hit: Hit) -> dict[str, Any]:
    return found_record(hit.tool, float(hit.score), "short")


def _brief(hit: Hit) -> dict[str, Any]:
    tool = hit.tool
    return {"id": tool.id, "server": tool.server, "name": tool.name, "score": float(hit.score)}


def _checked(job: Callable[[], _Made]) -> _Made:
    """Run a job; what it says about its input is the client's to know."""
    try:
        return job()
    except (EncoderError, IndexStoreError, CalibrationError) as e:
        raise ApiError("unavailable", str(e)) from e
    except ToolheadsError as e:
        raise ApiError("invalid_argument", str(e)) from e
