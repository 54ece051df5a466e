"""Options that several groups of commands share, each spelled once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from toolheads.bootstrap import (
    ENCODER_KINDS,
    KIND_VARIABLE,
    MODEL_VARIABLE,
    URL_VARIABLE,
    EncoderSettings,
    resolve_settings,
)
from toolheads.heads import Heads, load_heads
from toolheads.sample import dataset_path
from toolheads.texts.formats import (
    DEFAULT_BUDGET,
    DEFAULT_QUERY_FORMAT,
    DEFAULT_TOOL_FORMAT,
    TextSettings,
)

_ENCODER_FIELDS = {
    "encoder": "kind",
    "model": "model",
    "model_name": "name",
    "url": "url",
    "revision": "revision",
    "truncation": "truncation",
    "dimensions": "dimensions",
    "batch_tokens": "batch_tokens",
    "threads": "threads",
    "concurrency": "concurrency",
    "timeout": "timeout_s",
    "compute_dtype": "compute_dtype",
}
"""Option → field of `EncoderSettings`."""

ENCODER_OPTIONS = tuple(_ENCODER_FIELDS)
TEXT_OPTIONS = ("tool_format", "query_format", "instruction", "budget")
TRUST_OPTIONS = ("sha256", "allow_unverified")
"""Names in the parsed arguments; None or False where the option was not given."""

DEFAULT_CACHE = Path(".cache/toolheads")
"""Where vectors are kept unless `--cache` says otherwise."""


def add_encoder_options(parser: argparse.ArgumentParser) -> None:
    """Add `--encoder` and what goes with it; `encoder_settings` reads them."""
    group = parser.add_argument_group("encoder")
    group.add_argument(
        "--encoder",
        metavar="KIND",
        help=f"{', '.join(ENCODER_KINDS)} (default: ${KIND_VARIABLE}, else local)",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help=f"name or folder of the model (default: ${MODEL_VARIABLE}, else the packaged one)",
    )
    group.add_argument(
        "--model-name",
        metavar="NAME",
        help="name a server has for the model whose folder --model is (vllm)",
    )
    group.add_argument(
        "--url",
        action=_Joined,
        metavar="URL",
        help="OpenAI-compatible server, with /v1; several of one model with commas between them, "
        f"or repeated (default: ${URL_VARIABLE})",
    )
    group.add_argument("--revision", metavar="TAG", help="tag, commit or digest of the weights")
    group.add_argument(
        "--truncation", type=int, metavar="N", help="most tokens of a text (default: the model's)"
    )
    group.add_argument(
        "--dimensions", type=int, metavar="N", help="leading entries of a vector to keep"
    )
    group.add_argument("--batch-tokens", type=int, metavar="N", help="most tokens of a batch")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: all cores)")
    group.add_argument("--concurrency", type=int, metavar="N", help="requests in flight at once")
    group.add_argument("--timeout", type=float, metavar="SECONDS", help="wait for one answer")
    group.add_argument(
        "--compute-dtype",
        metavar="DTYPE",
        help="float32 or bfloat16 (sentence-transformers, vllm)",
    )


class _Joined(argparse.Action):
    """An option that may be repeated: its values with commas between them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, f"{before},{values}" if before else values)


def encoder_settings(args: argparse.Namespace) -> EncoderSettings:
    """What `add_encoder_options` parsed, completed by the environment and the defaults.

    Raises:
        ConfigError: If a setting breaks its rule or does not belong to the encoder.
    """
    return resolve_settings(**encoder_arguments(args))


def encoder_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_encoder_options` parsed, under the names of the settings; None if not given."""
    return {field: getattr(args, option) for option, field in _ENCODER_FIELDS.items()}


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add the text formats; `text_settings` reads them."""
    group = parser.add_argument_group("texts")
    for side, name in (("tool", DEFAULT_TOOL_FORMAT), ("query", DEFAULT_QUERY_FORMAT)):
        group.add_argument(
            f"--{side}-format", metavar="NAME", help=f"how a {side} is written (default: {name})"
        )
    group.add_argument("--instruction", metavar="SENTENCE", help="task sentence put before a query")
    group.add_argument(
        "--budget",
        type=int,
        metavar="N",
        help=f"most characters of a tool's text (default: {DEFAULT_BUDGET})",
    )


def text_settings(args: argparse.Namespace) -> TextSettings:
    """What `add_text_options` parsed.

    Raises:
        ConfigError: If a format is not known or the budget is below 1.
    """
    given = {name: getattr(args, name) for name in TEXT_OPTIONS}
    return TextSettings(**{name: value for name, value in given.items() if value is not None})


def add_trust_options(parser: argparse.ArgumentParser) -> None:
    """Add `--sha256` and `--allow-unverified`, for commands that load a heads file."""
    parser.add_argument("--sha256", metavar="HEX", help="digest the heads file must have")
    parser.add_argument(
        "--allow-unverified",
        action="store_true",
        help="load a heads file of which no digest is known",
    )


def loaded_heads(name_or_path: str, args: argparse.Namespace) -> Heads:
    """Load heads with the options of `add_trust_options`."""
    return load_heads(name_or_path, sha256=args.sha256, allow_unverified=args.allow_unverified)


def add_cache_option(parser: argparse.ArgumentParser) -> None:
    """Add `--cache DIR`, a `Path` as `args.cache`."""
    parser.add_argument(
        "--cache",
        type=Path,
        default=DEFAULT_CACHE,
        metavar="DIR",
        help=f"where vectors are kept (default: {DEFAULT_CACHE})",
    )


def add_data_option(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add `--data DIR` and `--skip-bad`, as `args.data` (a `Path`) and `args.skip_bad`."""
    parser.add_argument(
        "--data",
        type=dataset_path,
        required=required,
        metavar="DIR",
        help="a data set's folder (tools.jsonl, queries.jsonl), or a folder of such folders; "
        "`sample` is the sample catalogue of the package",
    )
    parser.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out lines that cannot be read instead of refusing the file",
    )
