"""The commands `teach` and `mine`: their words, and the data section of a config of `fit`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped, unused-ignore]
from jsonargparse import ArgumentError, ArgumentParser, Namespace, set_parsing_settings

from toolheads.bootstrap import make_encoder
from toolheads.embedder import Embedder
from toolheads.errors import ConfigError
from toolheads.scorers.dense import DenseScorer
from toolheads_train.data.folders import FolderSettings, read_selection
from toolheads_train.data.modules import FolderData
from toolheads_train.data.scores_file import Key, write_mined, write_teacher
from toolheads_train.data.selection import Selection
from toolheads_train.labelling.device import multiply_on
from toolheads_train.labelling.mine import MiningSettings, mine
from toolheads_train.labelling.teach import teach
from toolheads_train.labelling.teachers import CrossEncoder, Ensemble, Teacher

T = TypeVar("T")


def teach_main(words: Sequence[str]) -> int:
    """`toolheads train teach`: score the best tools of each training query with a teacher.

    The teacher is a cross-encoder, or the mean of heads files. `data.teacher` reads what is
    written here, and `model.loss.distil` learns from it.
    """
    parser = _parser("teach", teach_main.__doc__)
    parser.add_argument("--cross_encoder", type=str | None, help="folder or name of a model")
    parser.add_argument("--top", type=int, default=20, help="tools of each query, >= 2")
    parser.add_argument("--batch_size", type=int, default=32, help="pairs of the cross-encoder")
    given = _parsed(parser, words)
    if bool(given.heads) == bool(given.cross_encoder):
        msg = "teach must have --heads or --cross_encoder, got " + (
            "both" if given.heads else "none"
        )
        raise ConfigError(msg)
    with _opened(parser, given) as (selection, embedder):
        teacher: Teacher
        multiply = multiply_on(given.device)
        frozen = Ensemble([DenseScorer(embedder)], multiply)
        if given.cross_encoder:
            teacher = CrossEncoder.load(
                given.cross_encoder, embedder.texts, batch_size=given.batch_size
            )
        else:
            teacher = Ensemble.of_files(given.heads, embedder, multiply)
        scores = _collected(teach(selection, teacher, frozen, top=given.top))
    write_teacher(given.out, scores)
    return _done(given.out, len(scores))


def mine_main(words: Sequence[str]) -> int:
    """`toolheads train mine`: find hard negatives of training queries with trained heads.

    `data.mined` reads what is written here, and `data.sampling.hard_negatives` draws from it.
    """
    parser = _parser("mine", mine_main.__doc__)
    parser.add_argument("--mining", type=MiningSettings, default=MiningSettings())
    given = _parsed(parser, words)
    if not given.heads:
        msg = "mine must have --heads, got none"
        raise ConfigError(msg)
    settings = parser.instantiate_classes(given).mining
    with _opened(parser, given) as (selection, embedder):
        multiply = multiply_on(given.device)
        heads = Ensemble.of_files(given.heads, embedder, multiply)
        frozen = Ensemble([DenseScorer(embedder)], multiply)
        found = _collected(mine(selection, heads, frozen, embedder.texts, settings))
    write_mined(given.out, found)
    return _done(given.out, len(found))


def _parser(name: str, about: str | None) -> ArgumentParser:
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    parser = ArgumentParser(prog=f"toolheads train {name}", description=about, exit_on_error=False)
    parser.add_argument("--config", type=str | None, help="config of fit, for its data section")
    parser.add_argument("--heads", type=list[str] | None, help="heads files, as [a.npz, b.npz]")
    parser.add_argument("--out", type=str, required=True, help="file to write, JSONL")
    parser.add_argument(
        "--device", type=str, default="auto", help="multiplies: auto, numpy, or one of torch"
    )
    parser.add_class_arguments(FolderData, "data")
    return parser


def _parsed(parser: ArgumentParser, words: Sequence[str]) -> Namespace:
    """The words over the data section of the config they name.

    Raises:
        ConfigError: If the config has no data, or a word or a setting breaks its rule.
    """
    words = list(words)
    try:
        start = _data_section(_config_of(words))
        if start:
            parser.set_defaults({f"data.{name}": value for name, value in start.items()})
        return parser.parse_args(words)
    except ArgumentError as e:
        raise ConfigError(" ".join(str(e).split())) from e


def _config_of(words: Sequence[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--config":
            return following
        if word.startswith("--config="):
            return word.removeprefix("--config=")
    return None


def _data_section(path: str | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    if not Path(path).is_file():
        msg = f"config must be a file, got no file {path}"
        raise ConfigError(msg)
    whole = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    section = whole.get("data") if isinstance(whole, Mapping) else None
    if not isinstance(section, Mapping):
        msg = f"{path} must have a section data, got none"
        raise ConfigError(msg)
    return section


@contextmanager
def _opened(parser: ArgumentParser, given: Namespace) -> Iterator[tuple[Selection, Embedder]]:
    data: FolderData = parser.instantiate_classes(given).data
    # What is written here says what of older files is still right, so none is read.
    settings: FolderSettings = replace(data.folders, teacher=None, mined=None)
    selection = read_selection(settings, seed=data.seed)[1]
    encoder = make_encoder(settings.encoder)
    try:
        cache = None if settings.cache is None else Path(settings.cache)
        yield selection, Embedder(encoder, settings.texts, cache)
    finally:
        encoder.close()


def _collected(parts: Iterator[tuple[str, dict[Key, T]]]) -> dict[Key, T]:
    found: dict[Key, T] = {}
    for name, one in parts:
        sys.stderr.write(f"{name}: {len(one)} queries\n")
        found |= one
    return found


def _done(path: str, count: int) -> int:
    sys.stdout.write(f"{path}\n{count} queries\n")
    return 0
