"""Options of `toolheads serve` for decisions and for a chat model that reranks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from toolheads.decide import (
    Calibration,
    PickerSettings,
    load_calibration,
    packaged_thresholds,
)
from toolheads.decide.calibration.packaged import FALSE_BINDS
from toolheads.errors import ConfigError
from toolheads.facade import PACKAGED
from toolheads.rerank import ChatSettings, LlmSettings, OpenAIChat, chat_settings
from toolheads.rerank.llm.settings import MAIN_VARIABLES, OWN_VARIABLES, read_parameters

if TYPE_CHECKING:
    from toolheads.serving import Aids

NO_THRESHOLDS = "none"

_LLM_DEADLINE_S = 10.0


def add_aid_options(parser: argparse.ArgumentParser) -> None:
    """Add `--thresholds` and `--chat-url` with what goes with them."""
    group = parser.add_argument_group("decisions")
    group.add_argument(
        "--thresholds",
        default=PACKAGED,
        metavar="packaged|none|FILE|JSON",
        help="those that come with the heads (default), none, a file of toolheads calibrate, or "
        "settings of one's own",
    )
    group.add_argument(
        "--false-binds",
        type=float,
        default=FALSE_BINDS,
        metavar="SHARE",
        help=f"which of the fitted thresholds (default: {FALSE_BINDS:g})",
    )
    group.add_argument(
        "--told-nothing",
        type=float,
        metavar="SHARE",
        help="searches with a right tool that may be told that nothing matches, one of the shares "
        "that floors were fitted for (default: the smallest, 0.01 with the packaged heads)",
    )
    group = parser.add_argument_group(
        "reranking by a chat model",
        f"Also read from {OWN_VARIABLES}_URL, _MODEL, _API_KEY and _PARAMETERS, then from "
        f"{MAIN_VARIABLES}_URL and so on. No request can set any of it.",
    )
    group.add_argument("--chat-url", default="", metavar="URL", help="OpenAI-compatible server")
    group.add_argument(
        "--chat-model", default="", metavar="NAME", help="name the server has for it"
    )
    group.add_argument(
        "--chat-parameters", metavar="JSON", help="further fields of a call, an object"
    )
    group.add_argument(
        "--chat-deadline",
        type=float,
        default=_LLM_DEADLINE_S,
        metavar="SECONDS",
        help=f"then shared words choose; below --deadline (default: {_LLM_DEADLINE_S:g})",
    )


def made_aids(args: argparse.Namespace) -> Aids:
    """What the options name.

    Raises:
        ConfigError: If an option breaks its rule.
        CalibrationError: If a file of thresholds is missing or was changed.
    """
    from toolheads.serving import Aids

    chat = _chat(args)
    return Aids(
        thresholds=_thresholds(args.thresholds),
        false_binds=args.false_binds,
        chat=chat,
        llm=LlmSettings(deadline_s=args.chat_deadline),
        close=chat.close if chat is not None else _nothing,
    )


def floor_thresholds(aids: Aids) -> Calibration | str | None:
    """What says when nothing matches, for `load_retriever`; settings of one's own say nothing."""
    return None if isinstance(aids.thresholds, PickerSettings) else aids.thresholds


def check_thresholds(aids: Aids, subject: Mapping[str, Any] | None, *, is_needed: bool) -> None:
    """Refuse to start where every decision would fail for want of thresholds.

    Raises:
        ConfigError: If there are none for the scorer, and they are needed.
    """
    given = aids.thresholds
    is_there = (
        given is not None if given != "packaged" else bool(packaged_thresholds(subject or {}))
    )
    if is_needed and not is_there:
        msg = (
            "thresholds must be given to offer resolve, since none come with this scorer; make "
            "some with toolheads calibrate"
        )
        raise ConfigError(msg)


def _thresholds(given: str) -> Calibration | PickerSettings | Literal["packaged"] | None:
    if given == NO_THRESHOLDS:
        return None
    if given == PACKAGED:
        return "packaged"
    if given.lstrip().startswith("{"):
        return PickerSettings.from_json(given)
    return load_calibration(Path(given))


def _chat(args: argparse.Namespace) -> OpenAIChat | None:
    if not 0 < args.chat_deadline < args.deadline:
        msg = (
            f"chat-deadline must be > 0 and below the deadline of {args.deadline:g} s, "
            f"got {args.chat_deadline:g}"
        )
        raise ConfigError(msg)
    given = args.chat_parameters
    own = ChatSettings(
        url=args.chat_url,
        model=args.chat_model,
        parameters=None if given is None else read_parameters(given, "chat-parameters"),
    )
    settings = chat_settings(own)
    if not settings.url and not settings.model:
        return None
    if settings.api_key is None:
        # The variable for any server holds this server's own key, which no other may see.
        settings = replace(settings, api_key="")
    return OpenAIChat(settings, deadline_s=args.chat_deadline)


def _nothing() -> None:
    """Close nothing."""
