"""The only place that joins encoders to the port: settings in, a ready `Encoder` out.

Each setting is looked up in this order: argument, environment, default. Encoders are imported
when one is made, so that reading the settings costs nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from toolheads.errors import ConfigError
from toolheads.ports import Encoder

DEFAULT_KIND = "local"
"""Needs no server, no GPU and no torch."""

KIND_VARIABLE = "TOOLHEADS_ENCODER"
URL_VARIABLE = "TOOLHEADS_ENCODER_URL"
MODEL_VARIABLE = "TOOLHEADS_ENCODER_MODEL"
_VARIABLES = {"url": URL_VARIABLE, "model": MODEL_VARIABLE}


@dataclass(frozen=True)
class EncoderSettings:
    """Which encoder, and how it runs. Every field but `kind` has a neutral value: not set."""

    kind: str = DEFAULT_KIND
    """`local`, `openai`, `sentence-transformers` or `vllm`."""
    model: str = ""
    """Name or folder of the model; empty takes the packaged one where the kind has one."""
    name: str = ""
    """What the identity calls the model, where that is not `model` itself: the name that a
    server has for the model whose folder is `model`."""
    url: str = ""
    """Address of an OpenAI-compatible server, with `/v1`; several of one model with commas
    between them."""
    revision: str = ""
    """Tag, commit or digest of the weights, where it is not read off the weights."""
    truncation: int = 0
    """Most tokens of a text; 0 takes the model's own limit."""
    dimensions: int | None = None
    """Leading entries of a vector to keep, for models trained for it; None keeps all."""
    batch_tokens: int = 0
    """Most tokens of one batch, estimated or counted; 0 takes the encoder's own default."""
    threads: int = 0
    """CPU threads; 0 takes all cores."""
    concurrency: int = 0
    """Requests in flight at once; 0 takes the encoder's own default."""
    timeout_s: float = 0.0
    """Seconds to wait for one answer; 0 takes the encoder's own default."""
    compute_dtype: str = ""
    """`float32` or `bfloat16`; empty takes the encoder's own default."""

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            msg = f"encoder must be one of {', '.join(_KINDS)}, got {self.kind!r}"
            raise ConfigError(msg + _nearest(self.kind, _KINDS))
        kind = _KINDS[self.kind]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default and field.name not in kind.options:
                msg = (
                    f"{field.name} must be left out for encoder {self.kind}, got {value!r}; "
                    f"it takes {', '.join(sorted(kind.options))}"
                )
                raise ConfigError(msg)
            if isinstance(value, (int, float)) and not 0 <= value < math.inf:
                msg = f"{field.name} must be >= 0 and finite, got {value}"
                raise ConfigError(msg)
        if self.dimensions is not None and self.dimensions < 1:
            msg = f"dimensions must be >= 1, got {self.dimensions}"
            raise ConfigError(msg)
        missing = [name for name in kind.required if not getattr(self, name)]
        if missing:
            msg = (
                f"{missing[0]} must be given for encoder {self.kind}, got nothing; "
                f"pass --{missing[0]} or set {_VARIABLES[missing[0]]}"
            )
            raise ConfigError(msg)

    @property
    def options(self) -> dict[str, Any]:
        """What was set, as keyword arguments of the encoder."""
        values = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in values.items() if value != defaults[name]}


def resolve_settings(
    kind: str | None = None, *, environ: Mapping[str, str] | None = None, **arguments: Any
) -> EncoderSettings:
    """Settings from arguments, then the environment, then defaults.

    An address without a kind means `openai`. The environment's model and address describe the
    environment's encoder: an argument that names another kind leaves them out.

    Args:
        kind: See `EncoderSettings`; None looks in the environment.
        environ: What to read in place of `os.environ`.
        arguments: Fields of `EncoderSettings`; None means not given.

    Raises:
        ConfigError: If a setting breaks its rule.
    """
    env = os.environ if environ is None else environ
    given = {name: value for name, value in arguments.items() if value is not None}
    known = [setting.name for setting in fields(EncoderSettings)]
    for name in given:
        if name not in known:
            msg = f"an encoder setting must be one of {', '.join(known)}, got {name!r}"
            raise ConfigError(msg + _nearest(name, known))
    env_url, env_model = env.get(URL_VARIABLE, ""), env.get(MODEL_VARIABLE, "")
    env_kind = env.get(KIND_VARIABLE) or ("openai" if env_url else DEFAULT_KIND)
    chosen = kind or ("openai" if given.get("url") else env_kind)
    if chosen == env_kind:
        taken = _KINDS[chosen].options if chosen in _KINDS else frozenset()
        from_env = {"url": env_url, "model": env_model}
        given = {name: value for name, value in from_env.items() if name in taken} | given
    return EncoderSettings(chosen, **given)


def make_encoder(settings: EncoderSettings) -> Encoder:
    """Make the encoder that the settings describe.

    Raises:
        MissingExtraError: If a library or model that it needs is not installed.
        ConfigError: If the model is of a kind that this encoder cannot run.
    """
    return _KINDS[settings.kind].make(**settings.options)


def encoder(kind: str | None = None, **settings: Any) -> Encoder:
    """Make an encoder in one call: `encoder()`, `encoder("openai", url=…, model=…)`.

    Args:
        kind: `local`, `openai`, `sentence-transformers` or `vllm`; None takes what the
            environment says, else `local`.
        settings: Fields of `EncoderSettings`.
    """
    return make_encoder(resolve_settings(kind, **settings))


def _local(**options: Any) -> Encoder:
    from toolheads.encoders.local import LocalEncoder

    return LocalEncoder(**options)


def _openai(*, url: str, model: str, timeout_s: float = 0.0, **options: Any) -> Encoder:
    from toolheads.encoders.openai import OpenAIEncoder, Patience

    addresses = list(dict.fromkeys(one.strip() for one in url.split(",") if one.strip()))
    if len(addresses) > 1:
        return _replicas(addresses, model, timeout_s=timeout_s, **options)
    patience = Patience(timeout_s=timeout_s) if timeout_s else Patience()
    return OpenAIEncoder(url, model, patience=patience, **options)


def _replicas(
    addresses: Sequence[str], model: str, *, timeout_s: float, concurrency: int = 4, **options: Any
) -> Encoder:
    """Several servers of one model; one that fails leaves its work to the others at once."""
    from toolheads.encoders.openai import OpenAIEncoder, Patience
    from toolheads.encoders.replicas import ReplicaEncoder

    patience = Patience(timeout_s=timeout_s, retries=1) if timeout_s else Patience(retries=1)
    encoders = {
        url: OpenAIEncoder(url, model, patience=patience, concurrency=1, **options)
        for url in addresses
    }
    return ReplicaEncoder(encoders, in_flight=concurrency)


def _sentence_transformers(**options: Any) -> Encoder:
    from toolheads.encoders.sentence_transformers import SentenceTransformersEncoder

    return SentenceTransformersEncoder(**options)


def _vllm(*, model: str, compute_dtype: str = "auto", **options: Any) -> Encoder:
    from toolheads.encoders.vllm import VllmEncoder

    return VllmEncoder(model, dtype=compute_dtype, **options)


def _nearest(word: str, known: Iterable[str]) -> str:
    """A hint for what looks like a typo, to end a message with; empty if nothing is near."""
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


@dataclass(frozen=True)
class _Kind:
    make: Callable[..., Encoder]
    options: frozenset[str]
    required: tuple[str, ...] = ()


_KINDS: Mapping[str, _Kind] = {
    "local": _Kind(_local, frozenset({"model", "truncation", "batch_tokens", "threads"})),
    "openai": _Kind(
        _openai,
        frozenset(
            {"url", "model", "revision", "truncation", "dimensions", "batch_tokens"}
            | {"concurrency", "timeout_s"}
        ),
        required=("url", "model"),
    ),
    "sentence-transformers": _Kind(
        _sentence_transformers,
        frozenset({"model", "revision", "truncation", "dimensions", "batch_tokens"})
        | {"compute_dtype"},
    ),
    "vllm": _Kind(
        _vllm,
        frozenset({"model", "name", "revision", "truncation", "dimensions", "compute_dtype"}),
        required=("model",),
    ),
}

ENCODER_KINDS = tuple(_KINDS)
"""Every kind of encoder, the default first."""
