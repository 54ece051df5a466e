"""The latest searches, remembered so that a call can be linked to the search it followed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_OF_A_SESSION = 64
"""Searches of one session that a call is looked up in."""


@dataclass(frozen=True, slots=True)
class _Session:
    owner: str
    name: str
    recent: deque[str]
    """Ids of its latest searches."""


@dataclass(frozen=True, slots=True)
class _Shown:
    session: _Session
    tools: tuple[str, ...]
    """Few: a set of them would take six times the memory, ten thousand times over."""


class ShownTools:
    """Which tools the latest searches showed. Bounded; used from one thread.

    Args:
        most: Searches to remember; the oldest is forgotten first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_id: OrderedDict[str, _Shown] = OrderedDict()
        self._by_session: dict[tuple[str, str], _Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, search_id: str, owner: str, session: str, tool_ids: Sequence[str]) -> None:
        """Remember a search.

        Args:
            search_id: Its id.
            owner: Name of the key that searched; another key's calls are never linked to it.
            session: What it belongs to.
            tool_ids: What it showed.
        """
        of_one = self._by_session.get((owner, session))
        if of_one is None:
            of_one = _Session(owner, session, deque(maxlen=_MOST_OF_A_SESSION))
            self._by_session[owner, session] = of_one
        self._by_id[search_id] = _Shown(of_one, tuple(tool_ids))
        of_one.recent.append(search_id)
        while len(self._by_id) > self._most:
            self._forget(*self._by_id.popitem(last=False))

    def search_of(
        self, tool_id: str, *, owner: str, session: str, search_id: str | None = None
    ) -> str | None:
        """The search that a call of a tool followed; None if that is not known.

        Args:
            tool_id: The tool that is called.
            owner: Name of the key that calls.
            session: What the call belongs to.
            search_id: What the client says. It is believed unless it is known to be wrong: the
                search may have been answered by another replica.
        """
        if search_id is not None:
            known = self._by_id.get(search_id)
            if known is None or (known.session.owner == owner and tool_id in known.tools):
                return search_id
        of_one = self._by_session.get((owner, session))
        for recent in reversed(of_one.recent) if of_one else ():
            known = self._by_id.get(recent)
            if known is not None and tool_id in known.tools:
                return recent
        return None

    def _forget(self, search_id: str, shown: _Shown) -> None:
        session = shown.session
        if session.recent and session.recent[0] == search_id:
            session.recent.popleft()
        if not session.recent:
            self._by_session.pop((session.owner, session.name), None)
