"""The retriever: one immutable state that searches read and updates replace."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np

from toolheads.arrays import Floats
from toolheads.domain import Tool
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.retrieval.answer import Answer, Status, Update
from toolheads.retrieval.breaker import Breaker
from toolheads.retrieval.builder import Builder
from toolheads.retrieval.building import Scoring, Wish
from toolheads.retrieval.encoding import Encoding
from toolheads.retrieval.following import Follower
from toolheads.retrieval.health import Health
from toolheads.retrieval.query_vectors import VectorOnItsWay
from toolheads.retrieval.searching import Searching
from toolheads.retrieval.settings import RetrieverSettings
from toolheads.scorers.indexed_corpus import gathered


class Retriever:
    """Finds tools. Safe to share between threads; searches wait for no lock.

    Answers from the first moment, by words until enough tools are embedded, and by words again
    while the encoder or the index fails. Made by `toolheads.load_retriever`.

    Args:
        name: Of the scorer, for reports.
        scoring: How tools are scored.
        make_embedder: Gives the embedder for queries, in a background thread; None for words
            alone.
        probe: (p, d) float32, what the probe texts must look like; None takes what an earlier
            run saw, or else the first answer.
        space: Names what rows are made of.
        cache: Folder that keeps vectors of tools.
        warm_file: What makes the next start quick.
        owns_index: Whether the index holds rows of this catalogue alone.
        subject: What shapes scores by vectors, JSON types, see `toolheads.decide`; None for words
            alone.
        settings: Limits and patience.
    """

    def __init__(
        self,
        name: str,
        scoring: Scoring,
        make_embedder: Callable[[], Embedder] | None,
        *,
        probe: Floats | None = None,
        space: str = "",
        cache: Path | None = None,
        warm_file: Path | None = None,
        owns_index: bool = True,
        subject: Mapping[str, Any] | None = None,
        settings: RetrieverSettings | None = None,
    ) -> None:
        self.subject = subject
        self._scoring = scoring
        self._settings = settings = settings or RetrieverSettings()
        recipe = scoring.recipe
        index_breaker = Breaker(
            failures=1, retry_s=settings.retry_s, most_retry_s=settings.most_retry_s
        )
        self._changed = threading.Condition()
        self._builder = Builder(
            scoring,
            settings,
            space=space,
            warm_file=warm_file,
            owns_index=owns_index,
            on_state=self._has_state,
        )
        self._encoding: Encoding | None = None
        if recipe is not None and make_embedder is not None:
            self._encoding = Encoding(
                name,
                scoring,
                recipe,
                make_embedder,
                probe=probe,
                cache=cache,
                builder=self._builder,
                settings=settings,
            )
        self._health = Health(name, self._builder, self._encoding, index_breaker)
        self._searching = Searching(
            scoring, self._builder, self._encoding, self._health, index_breaker, settings
        )
        self._follower: Follower | None = None
        self._is_closed = False
        self._builder.start()
        if self._encoding is not None:
            self._encoding.start()

    def search(
        self,
        text: str,
        k: int | None = None,
        *,
        scope: str = "",
        conversation: str | None = None,
        deadline_s: float | None = None,
        sources: Collection[str] | None = None,
        may_be_nothing: bool = True,
        begun: VectorOnItsWay | None = None,
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
            may_be_nothing: Whether the answer may be that nothing matches, where the best tool is
                below the floor that is fitted to the catalogue; False finds the best all the same.
            begun: What `begin` gave for this text and scope: taken as it is now, waiting for
                nothing more.

        Raises:
            ConfigError: If the text is blank or no valid Unicode, k < 1, or deadline_s < 0.
        """
        return self._searching.search(
            text,
            k,
            scope=scope,
            conversation=conversation,
            deadline_s=deadline_s,
            sources=sources,
            may_be_nothing=may_be_nothing,
            begun=begun,
        )

    def begin(
        self, text: str, *, scope: str = "", deadline_s: float | None = None
    ) -> VectorOnItsWay | None:
        """Begin to embed a query, for callers that have no thread to wait in.

        Wait until it is done or its time is up, then give it to `search`.

        Args:
            text: As for `search`.
            scope: As for `search`.
            deadline_s: As for `search`.

        Returns:
            None where a search would wait for nothing.

        Raises:
            ConfigError: If the text is blank or no valid Unicode, or deadline_s < 0.
        """
        return self._searching.begin(text, scope, deadline_s)

    @property
    def is_light(self) -> bool:
        """Whether a search costs so little that to hand it to another thread would cost more.

        That is so for some ten thousand tools of 384 entries, in an index that is at hand. What a
        search has to wait for the encoder does not count, see `begin`.
        """
        return self._searching.is_light

    def is_quick(self, text: str, *, scope: str = "") -> bool:
        """Whether a search for this text would not wait for the encoder."""
        if self._encoding is None or self._builder.state.corpus is None:
            return True
        return self._encoding.vectors.is_quick(text, scope)

    def rank(
        self,
        text: str,
        tools: Sequence[Tool],
        k: int | None = None,
        *,
        scope: str = "",
        deadline_s: float | None = None,
    ) -> Answer:
        """Rank tools of the caller's own, which need not be of the catalogue.

        Args:
            text: The query.
            tools: n tools.
            k: How many, best first; None ranks all.
            scope: Whose they are; their vectors are cached for each scope apart.
            deadline_s: Longest wait for vectors, of the query and then of the tools.

        Raises:
            ConfigError: If the text is blank or no valid Unicode, k < 1, or deadline_s < 0.
            DataError: If a tool holds what is no JSON, such as a lone surrogate.
        """
        return self._searching.rank(text, tools, k, scope=scope, deadline_s=deadline_s)

    def tool(self, name: str, *, sources: Collection[str] | None = None) -> Tool | None:
        """The tool with this id or API name, or with this plain name if it is the only one.

        Args:
            name: As a caller writes it.
            sources: Servers whose tools may be seen; None for all.
        """
        state = self._builder.state
        tools = [state.tools[state.snapshot.row_of[i]] for i in state.names.of(name)]
        allowed = [t for t in tools if sources is None or t.server in sources]
        return allowed[0] if len(allowed) == 1 else None

    def rows(self, tools: Sequence[Tool]) -> Floats | None:
        """The rows that tools of the catalogue are ranked by.

        Returns:
            (n, e) float32, zeros for a tool that has no row yet; None where words alone count.

        Raises:
            IndexStoreError: If the index fails.
        """
        index, snapshot = self._scoring.index, self._builder.state.snapshot
        if index is None:
            return None
        places = [snapshot.row_of.get(tool.id) for tool in tools]
        keys = ["" if place is None else snapshot.keys[place] for place in places]
        has_row = np.array([key in snapshot.embedded for key in keys], np.bool_)
        rows: Floats = np.zeros((len(tools), index.width), np.float32)
        if has_row.any():
            rows[has_row] = gathered(index, [key for key in keys if key in snapshot.embedded])
        return rows

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that are served, by id."""
        return self._builder.state.tools

    @property
    def catalogue_digest(self) -> str:
        """Digest of the tools that are served, see `toolheads.catalogue.tools_digest`."""
        return self._builder.state.snapshot.catalogue

    def update(self, tools: Sequence[Tool]) -> Update:
        """Serve other tools; returns once searches see them.

        Until they are embedded, see `wait`, new tools are found by their words, where the scorer
        has words; without, they count as the mean of the others.

        Raises:
            ConfigError: If two tools have one id, or the retriever is closed; what was served
                stays.
            DataError: If a tool holds what is no JSON.
        """
        return self._take(Wish(tuple(tools)))

    def follow(self, folder: str | os.PathLike[str]) -> None:
        """Serve the catalogue in a folder from now on, and take over its changes.

        A file that is missing, empty or damaged leaves the tools as they are; `status` says why,
        and it is read again once it changes.

        Args:
            folder: With `tools.jsonl`, or such a file.
        """
        self.stop()
        follower = Follower(folder, self._take, poll_s=self._settings.poll_s)
        self._follower = follower
        follower.start()

    def stop(self) -> None:
        """Stop following."""
        if self._follower is not None:
            self._follower.close()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until every tool that can be is embedded and found by its vector.

        Args:
            timeout_s: The longest wait; None waits for as long as it takes.

        Returns:
            Whether that is so.
        """
        with self._changed:
            return self._changed.wait_for(self._is_filled, timeout_s)

    def status(self) -> Status:
        """How it is; never waits."""
        return self._health.status(self._follower)

    def close(self) -> None:
        """Stop following and all threads, and write what makes the next start quick."""
        if self._is_closed:
            return
        self._is_closed = True
        self.stop()
        if self._encoding is not None:
            self._encoding.close()
        self._builder.close()
        if self._scoring.index is not None:
            self._scoring.index.close()
        if self._encoding is not None:
            self._encoding.close_encoder()

    def __enter__(self) -> Retriever:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, wish: Wish) -> Update:
        if self._is_closed:
            raise ConfigError("the retriever must be open to serve other tools, got a closed one")
        try:
            return self._builder.ask(wish).result()
        except CancelledError as e:
            msg = "the retriever must be open to serve other tools, got a closed one"
            raise ConfigError(msg) from e

    def _is_filled(self) -> bool:
        return self._encoding is None or self._encoding.is_filled

    def _has_state(self) -> None:
        if self._encoding is not None:
            self._encoding.filler.wake()
        with self._changed:
            self._changed.notify_all()
