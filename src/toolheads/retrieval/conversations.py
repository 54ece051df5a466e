"""What conversations have been shown, so that a list of tools only grows at its end.

Providers cache a prompt up to its first change: tools that move or go cost all that follows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

Key = tuple[str, str]
"""(scope, conversation)."""


class Conversations:
    """Ids of tools in the order they were first shown, of the conversations used last.

    Safe to share between threads; its lock is held for moments.

    Args:
        most: Most conversations.
        tools: Most tools of one; one that would have more starts anew with the latest.
    """

    def __init__(self, *, most: int, tools: int) -> None:
        self._most, self._tools = most, tools
        self._mutex = threading.Lock()
        self._shown: OrderedDict[Key, tuple[str, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._shown)

    def show(
        self, key: Key, found: Sequence[str], is_there: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Add what a search found to what was shown.

        Args:
            key: The conversation.
            found: Ids, best first.
            is_there: Whether the tool of an id may be shown; others drop out.

        Returns:
            Ids to show: those of before in their order, then the new ones, best first.
        """
        with self._mutex:
            kept = tuple(i for i in self._shown.pop(key, ()) if is_there(i))
            listed = (*kept, *(i for i in dict.fromkeys(found) if i not in kept))
            if len(listed) > self._tools:
                listed = tuple(dict.fromkeys(found))
            if self._most:
                self._shown[key] = listed
            while len(self._shown) > self._most:
                self._shown.popitem(last=False)
            return listed
