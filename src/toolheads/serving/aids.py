"""What choosing tools needs beside the retriever: thresholds, and a chat model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolheads.decide import Calibration, PickerSettings, packaged_settings
from toolheads.domain import Tool
from toolheads.errors import ChatError, ConfigError
from toolheads.ports import Scorer
from toolheads.rerank import ChatModel, LlmSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Aids:
    """What the one who runs a server gives it; callers can change none of it."""

    thresholds: Calibration | PickerSettings | Literal["packaged"] | None = "packaged"
    """Of decisions whose caller gives none: `packaged` are those that come with packaged heads;
    None has none, so that callers must give them."""
    false_binds: float = 0.05
    """Which ones of a calibration."""
    chat: ChatModel | None = None
    """Chooses tools for method `llm`; None leaves it to shared words."""
    llm: LlmSettings = field(default_factory=LlmSettings)
    """How it is asked."""
    close: Callable[[], None] = lambda: None
    """Called when the server ends."""

    def settings(self, scorer: Scorer, tools: Sequence[Tool]) -> PickerSettings:
        """Thresholds for a need that comes without.

        Raises:
            ConfigError: If there are none for this scorer and this kind of catalogue.
            CalibrationError: If those that were given are for another scorer.
        """
        if isinstance(self.thresholds, PickerSettings):
            return self.thresholds
        if isinstance(self.thresholds, Calibration):
            self.thresholds.check(scorer, tools)
            return self.thresholds.settings(self.false_binds)
        found = self.thresholds and packaged_settings(scorer, tools, self.false_binds)
        if not found:
            msg = "settings must be given, since this server has no thresholds for its scorer"
            raise ConfigError(msg)
        return found


class Discreet:
    """A chat model whose failures are told to the log alone, since they name its address.

    Args:
        chat: The model.
    """

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, object] | None = None,
    ) -> object:
        """Ask. See `ChatModel`."""
        try:
            return self._chat.send(messages, system=system, reply_schema=reply_schema)
        except Exception as e:
            _log.warning("the chat model failed: %s", e)
            msg = "the chat model failed; the log of the server says why"
            raise ChatError(msg) from e


class Busy:
    """Stands for a chat model that has no place for one more call."""

    def send(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        system: str,
        reply_schema: Mapping[str, object] | None = None,
    ) -> object:
        """Fail. See `ChatModel`."""
        raise ChatError("the chat model is busy with other requests")
