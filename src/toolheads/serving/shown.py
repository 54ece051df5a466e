"""The latest searches, remembered so that a call can be linked to the search it followed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_OF_A_SESSION = 64
"""Searches of one session that a call is looked up in."""


@dataclass(frozen=True)
class _Shown:
    owner: str
    session: str
    tools: frozenset[str]


class ShownTools:
    """Which tools the latest searches showed. Bounded; used from one thread.

    Args:
        most: Searches to remember; the oldest is forgotten first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_id: OrderedDict[str, _Shown] = OrderedDict()
        self._by_session: dict[tuple[str, str], deque[str]] = {}

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
        self._by_id[search_id] = _Shown(owner, session, frozenset(tool_ids))
        recent = self._by_session.setdefault((owner, session), deque(maxlen=_MOST_OF_A_SESSION))
        recent.append(search_id)
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
            if known is None or (known.owner == owner and tool_id in known.tools):
                return search_id
        for recent in reversed(self._by_session.get((owner, session), ())):
            known = self._by_id.get(recent)
            if known is not None and tool_id in known.tools:
                return recent
        return None

    def _forget(self, search_id: str, shown: _Shown) -> None:
        session = (shown.owner, shown.session)
        recent = self._by_session.get(session)
        if recent and recent[0] == search_id:
            recent.popleft()
        if not recent:
            self._by_session.pop(session, None)
