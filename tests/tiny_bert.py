"""A BERT small enough to write into a test's folder, and its forward pass in plain numpy."""

import json
import math
import string

import numpy as np

WIDTH, HEADS, LAYERS, INNER, POSITIONS, EPSILON = 16, 2, 2, 24, 40, 1e-12
_TYPES = "sentence_transformers.models"
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "send", "a", "message", "##s", "rain", "city", "to")
_CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation
PIECES = tuple(dict.fromkeys((*WORDS, *_CHARACTERS, *(f"##{c}" for c in _CHARACTERS))))
"""The vocabulary: a few words, and single characters, so that no two ASCII texts are alike."""


def write_tiny_bert(
    folder,
    *,
    seed=0,
    pooling="mean",
    config=None,
    modules=("Transformer", "Pooling", "Normalize"),
    dtype=np.float32,
    sentence=None,
):
    """Write a sentence-transformers folder in the layout of most models on the hub."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing

    folder.mkdir(parents=True, exist_ok=True)
    weights = {k: v.astype(dtype) for k, v in tiny_weights(seed).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    vocabulary = {piece: i for i, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(8)  # left from training; the encoder must not obey it
    tokenizer.enable_padding(length=30)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    _write(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": names.get(m, f"{i}_{m}"), "type": f"{_TYPES}.{m}"}
            for i, m in enumerate(modules)
        ],
    )
    modes = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}
    flags = {f"pooling_mode_{mode}": name == pooling for name, mode in modes.items()}
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH} | flags)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": 12} | (sentence or {}))
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    _write(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"} | special)
    _write(
        folder / "config.json",
        {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": WIDTH,
            "intermediate_size": INNER,
            "layer_norm_eps": EPSILON,
            "max_position_embeddings": POSITIONS,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "type_vocab_size": 2,
            "vocab_size": len(PIECES),
        }
        | (config or {}),
    )
    return folder


def tiny_weights(seed=0):
    """Random weights under the names of BertModel, large enough that every part matters."""
    rng = np.random.default_rng(seed)
    weights = {
        "embeddings.word_embeddings.weight": rng.normal(0, 1, (len(PIECES), WIDTH)),
        "embeddings.position_embeddings.weight": rng.normal(0, 0.5, (POSITIONS, WIDTH)),
        "embeddings.token_type_embeddings.weight": rng.normal(0, 0.5, (2, WIDTH)),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name, shape in {
            "attention.self.query": (WIDTH, WIDTH),
            "attention.self.key": (WIDTH, WIDTH),
            "attention.self.value": (WIDTH, WIDTH),
            "attention.output.dense": (WIDTH, WIDTH),
            "intermediate.dense": (INNER, WIDTH),
            "output.dense": (WIDTH, INNER),
        }.items():
            weights[f"{at}.{name}.weight"] = rng.normal(0, 0.5, shape)
            weights[f"{at}.{name}.bias"] = rng.normal(0, 0.5, shape[0])
    for norm in ["embeddings.LayerNorm"] + [
        f"encoder.layer.{layer}.{part}.LayerNorm"
        for layer in range(LAYERS)
        for part in ("attention.output", "output")
    ]:
        weights[f"{norm}.weight"] = rng.uniform(0.5, 1.5, WIDTH)
        weights[f"{norm}.bias"] = rng.normal(0, 0.3, WIDTH)
    return {name: array.astype(np.float32) for name, array in weights.items()}


def tiny_forward(weights, ids, *, pooling="mean"):
    """The definition: BERT (Devlin et al. 2018, after the reference code), one text, float64."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}

    def linear(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        return centred / scale * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x):
        return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    def heads(x):
        return x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = (heads(linear(x, f"{at}.attention.self.{n}")) for n in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(WIDTH / HEADS)
        attention = np.exp(scores - scores.max(axis=-1, keepdims=True))
        attention /= attention.sum(axis=-1, keepdims=True)
        mixed = (attention @ v).transpose(1, 0, 2).reshape(len(x), WIDTH)
        x = norm(
            linear(mixed, f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm"
        )
        inner = gelu(linear(x, f"{at}.intermediate.dense"))
        x = norm(linear(inner, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    pooled = x.mean(axis=0) if pooling == "mean" else x[0]
    return pooled / np.linalg.norm(pooled)


def _write(path, data):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
