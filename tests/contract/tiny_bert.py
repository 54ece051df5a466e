"""A sentence-transformers folder with a BERT of random weights, made on the spot."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np

WIDTH, LAYERS, HEADS, POSITIONS = 32, 2, 4, 96


def write_tiny_bert(folder: Path) -> Path:
    """Write the folder; the same files each time. Its tokens are single characters."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = string.ascii_lowercase + string.digits + string.punctuation
    pieces = special + list(characters) + [f"##{c}" for c in characters]
    save_file(_weights(len(pieces)), folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(folder, pieces)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": len(pieces),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * WIDTH,
        "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "dtype": "float32",
    }
    types = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{types}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{types}.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{types}.Normalize"},
    ]
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True}
    for name, content in {
        "config.json": config,
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
    }.items():
        (folder / name).write_text(json.dumps(content, indent=1), "utf-8")
    return folder


def _weights(vocabulary: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)

    def normal(*shape: int, scale: float) -> np.ndarray:
        return rng.normal(size=shape, scale=scale).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(vocabulary, WIDTH, scale=1.0),
        "embeddings.position_embeddings.weight": normal(POSITIONS, WIDTH, scale=0.3),
        "embeddings.token_type_embeddings.weight": normal(2, WIDTH, scale=0.1),
    }
    norms = ["embeddings.LayerNorm"]
    linears = {"pooler.dense": (WIDTH, WIDTH)}
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            linears[f"{layer}.attention.{part}"] = (WIDTH, WIDTH)
        linears[f"{layer}.intermediate.dense"] = (2 * WIDTH, WIDTH)
        linears[f"{layer}.output.dense"] = (WIDTH, 2 * WIDTH)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name, shape in linears.items():
        weights[f"{name}.weight"] = normal(*shape, scale=WIDTH**-0.5)
        weights[f"{name}.bias"] = normal(shape[0], scale=0.1)
    for name in norms:
        weights[f"{name}.weight"] = 1 + normal(WIDTH, scale=0.1)
        weights[f"{name}.bias"] = normal(WIDTH, scale=0.1)
    return weights


def _write_tokenizer(folder: Path, pieces: list[str]) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": POSITIONS,
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about), "utf-8")
    (folder / "vocab.txt").write_text("\n".join(pieces), "utf-8")
