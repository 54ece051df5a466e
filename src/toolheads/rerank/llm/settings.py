"""Which chat model is asked, and how much of the catalogue it is shown."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from toolheads.errors import ConfigError

FirstStage = Literal["keyword", "heads"]
Order = Literal["rank", "catalogue"]

MAIN_VARIABLES = "TOOLHEADS_CHAT"
"""Start of the environment variables of the main model: `…_URL`, `…_MODEL`, `…_API_KEY`,
`…_PARAMETERS`."""

OWN_VARIABLES = "TOOLHEADS_RERANK"
"""Start of those of the model that reranks, which win."""

_OURS = frozenset({"model", "messages", "stream", "n", "tools", "tool_choice", "response_format"})
"""Fields of a call that parameters may not set."""


@dataclass(frozen=True)
class ChatSettings:
    """A chat model behind an OpenAI-compatible server. What is empty is not set."""

    url: str = ""
    """Address of the server, with or without `/v1`."""
    model: str = ""
    """Name the server serves the model under."""
    api_key: str | None = field(default=None, repr=False)
    """None reads TOOLHEADS_API_KEY, and for https://api.openai.com OPENAI_API_KEY; "" sends
    none."""
    parameters: Mapping[str, Any] | None = None
    """Further fields of a call, such as `temperature` or `max_tokens`; None is not set."""

    def __post_init__(self) -> None:
        for name in ("url", "model", "api_key"):
            value = getattr(self, name)
            if not isinstance(value, str) and not (name == "api_key" and value is None):
                msg = f"{name} must be text, got {type(value).__name__}"
                raise ConfigError(msg)
        if self.parameters is None:
            return
        if not isinstance(self.parameters, Mapping):
            msg = f"parameters must be an object, got {type(self.parameters).__name__}"
            raise ConfigError(msg)
        for name in self.parameters:
            if name in _OURS:
                msg = f"parameters must leave {', '.join(sorted(_OURS))} out, got {name}"
                raise ConfigError(msg)
        try:
            json.dumps(dict(self.parameters), allow_nan=False)
        except (TypeError, ValueError) as e:
            msg = f"parameters must be JSON, got {e}"
            raise ConfigError(msg) from e

    @property
    def is_set(self) -> bool:
        """Whether there is a model to ask."""
        return bool(self.url and self.model)

    def inheriting(self, main: ChatSettings) -> ChatSettings:
        """Fill what is empty from the main model's settings, which stay as they are.

        The main model's parameters come along only with its model, since another may not take
        them; its key only with its server, so that no other server is ever sent it.
        """
        url = self.url or main.url
        keeps_key = self.api_key is None and _origin(url) == _origin(main.url)
        keeps_parameters = self.parameters is None and not self.model
        return replace(
            self,
            url=url,
            model=self.model or main.model,
            api_key=main.api_key if keeps_key else self.api_key,
            parameters=main.parameters if keeps_parameters else self.parameters,
        )

    @classmethod
    def from_environment(
        cls, prefix: str, environ: Mapping[str, str] | None = None
    ) -> ChatSettings:
        """Read the four variables that start with a prefix.

        Raises:
            ConfigError: If the parameters are no JSON object.
        """
        env = os.environ if environ is None else environ
        given = env.get(f"{prefix}_PARAMETERS", "").strip()
        return cls(
            url=env.get(f"{prefix}_URL", ""),
            model=env.get(f"{prefix}_MODEL", ""),
            api_key=env.get(f"{prefix}_API_KEY"),
            parameters=read_parameters(given, f"{prefix}_PARAMETERS") if given else None,
        )


def chat_settings(
    own: ChatSettings | None = None, environ: Mapping[str, str] | None = None
) -> ChatSettings:
    """Settings of the model that reranks: what is given, then its variables, then the main ones.

    Args:
        own: What was given as arguments.
        environ: What to read in place of `os.environ`.

    Raises:
        ConfigError: If a setting breaks its rule.
    """
    main = ChatSettings.from_environment(MAIN_VARIABLES, environ)
    reranker = ChatSettings.from_environment(OWN_VARIABLES, environ).inheriting(main)
    return (own or ChatSettings()).inheriting(reranker)


def read_parameters(text: str, name: str) -> dict[str, Any]:
    """Read parameters from JSON.

    Args:
        text: A JSON object.
        name: What an error calls it.

    Raises:
        ConfigError: If it is none.
    """
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as e:
        msg = f"{name} must be a JSON object, got {text!r:.80}"
        raise ConfigError(msg) from e
    if not isinstance(read, dict):
        msg = f"{name} must be a JSON object, got {text!r:.80}"
        raise ConfigError(msg)
    return read


@dataclass(frozen=True)
class LlmSettings:
    """How a chat model is asked. The cost of a call does not grow with the catalogue."""

    deadline_s: float = 30.0
    """Longest wait for the answer with all its retries, in seconds; keyword ranks after it."""
    most_candidates: int = 100
    """Most tools that the model is shown; of more, the first stage chooses."""
    first_stage: FirstStage = "keyword"
    """What chooses and ranks them: shared words, or the scorer."""
    order: Order = "rank"
    """How they are shown: best first, since small models repeat the first lines of a list; or as
    in the catalogue, so that a server that keeps prompts finds the same beginning each turn."""
    description_chars: int = 200
    """Most characters of a description that the model is shown."""
    message_chars: int = 4000
    """Most characters of the message; of a longer one, its beginning and its end are shown."""

    def __post_init__(self) -> None:
        if not (self.deadline_s > 0 and math.isfinite(self.deadline_s)):
            msg = f"deadline_s must be > 0 and finite, got {self.deadline_s}"
            raise ConfigError(msg)
        for name in ("most_candidates", "description_chars", "message_chars"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                msg = f"{name} must be a whole number >= 1, got {value!r}"
                raise ConfigError(msg)
        if self.first_stage not in get_args(FirstStage):
            msg = f"first_stage must be one of keyword, heads, got {self.first_stage!r}"
            raise ConfigError(msg)
        if self.order not in get_args(Order):
            msg = f"order must be one of rank, catalogue, got {self.order!r}"
            raise ConfigError(msg)


def _origin(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return "", url
    return parts.scheme.lower(), parts.netloc.lower()
