"""The encoder through sentence-transformers, and its agreement with the local one."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from tests.tiny_bert import WIDTH, tiny_forward, tiny_weights, write_tiny_bert

from toolheads.encoders import model_folder
from toolheads.encoders import sentence_transformers as adapter
from toolheads.encoders.local import LocalEncoder
from toolheads.encoders.model_folder import packaged_folder
from toolheads.encoders.sentence_transformers import SentenceTransformersEncoder
from toolheads.errors import ConfigError, EncoderError, MissingExtraError
from toolheads.identity import PROBE_TEXTS, Fingerprint
from toolheads.texts.formats import TextSettings

# Looked for, not imported: the import takes seconds, also where no test of this file runs.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("sentence_transformers") is None, reason="needs sentence-transformers"
    ),
]

TEXTS = ("send a message to rain", "city", "rain to a city a city " * 5, "")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def encoder(tiny):
    return SentenceTransformersEncoder(tiny, device="cpu")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_it_agrees_with_the_local_encoder_and_has_its_identity(tmp_path, pooling):
    folder = write_tiny_bert(tmp_path / "m", pooling=pooling)
    one = SentenceTransformersEncoder(folder, device="cpu")
    two = LocalEncoder(folder, threads=1)
    np.testing.assert_allclose(one.encode(TEXTS), two.encode(TEXTS), atol=2e-6)
    assert one.identity == two.identity


def test_rows_come_in_the_order_of_the_texts_whatever_the_batches(tiny, encoder):
    alone = SentenceTransformersEncoder(tiny, device="cpu", batch_tokens=1)
    np.testing.assert_allclose(alone.encode(TEXTS), encoder.encode(TEXTS), atol=1e-6)


def test_no_texts_give_no_rows(encoder):
    assert encoder.encode([]).shape == (0, WIDTH)


def test_a_smaller_truncation_is_obeyed_and_is_part_of_the_identity(tiny):
    encoder = SentenceTransformersEncoder(tiny, truncation=5, device="cpu")
    want = tiny_forward(tiny_weights(), [2, 8, 8, 8, 3])
    np.testing.assert_allclose(encoder.encode(["rain " * 30])[0], want, atol=2e-6)
    assert encoder.identity.truncation == 5


def test_dimensions_keep_the_leading_entries_and_the_length(tiny, encoder):
    short = SentenceTransformersEncoder(tiny, dimensions=4, device="cpu")
    want = encoder.encode(TEXTS)[:, :4]
    want = want / np.linalg.norm(want, axis=1, keepdims=True)
    np.testing.assert_allclose(short.encode(TEXTS), want, atol=1e-6)
    assert short.identity.width == 4


@pytest.mark.parametrize("dimensions", [0, WIDTH + 1])
def test_dimensions_beyond_the_width_are_refused(tiny, dimensions):
    with pytest.raises(ConfigError, match=rf"dimensions must be in \[1, 16\], got {dimensions}"):
        SentenceTransformersEncoder(tiny, dimensions=dimensions)


def test_a_prompt_of_the_model_is_not_added_behind_the_text_format(tiny, encoder, tmp_path):
    folder = write_tiny_bert(tmp_path / "m")
    (folder / "config_sentence_transformers.json").write_text(
        '{"prompts": {"query": "rain rain "}, "default_prompt_name": "query"}'
    )
    prompted = SentenceTransformersEncoder(folder, device="cpu")
    np.testing.assert_allclose(prompted.encode(["city"]), encoder.encode(["city"]), atol=1e-6)


def test_bfloat16_keeps_the_identity_and_gives_rows_of_length_one(tiny, encoder):
    fast = SentenceTransformersEncoder(tiny, compute_dtype="bfloat16", device="cpu")
    rows = fast.encode(TEXTS)
    assert np.abs(rows - encoder.encode(TEXTS)).max() > 1e-5  # it does compute in bfloat16
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert fast.identity == encoder.identity


def test_bfloat16_that_does_not_agree_is_refused(tiny, monkeypatch):
    monkeypatch.setattr(adapter, "MIN_AGREEMENT", 1.1)
    with pytest.raises(EncoderError, match=r"must agree .* got \d\.\d+; use compute_dtype float32"):
        SentenceTransformersEncoder(tiny, compute_dtype="bfloat16", device="cpu")


def test_weights_in_bfloat16_have_it_in_the_identity_and_need_no_check(tmp_path, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    folder = write_tiny_bert(tmp_path / "m", dtype=ml_dtypes.bfloat16)
    monkeypatch.setattr(adapter, "MIN_AGREEMENT", 1.1)
    encoder = SentenceTransformersEncoder(folder, compute_dtype="bfloat16", device="cpu")
    assert encoder.identity.dtype == "bfloat16"


def test_weights_in_bfloat16_are_computed_in_float32_unless_told(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    folder = write_tiny_bert(tmp_path / "m", dtype=ml_dtypes.bfloat16)
    one = SentenceTransformersEncoder(folder, device="cpu")
    two = LocalEncoder(folder, threads=1)
    np.testing.assert_allclose(one.encode(TEXTS), two.encode(TEXTS), atol=2e-6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"compute_dtype": "float16"}, "compute_dtype must be one of float32, bfloat16"),
        ({"batch_tokens": -1}, "batch_tokens must be >= 0, got -1"),
        ({"revision": "v2"}, "revision must be left out for a folder, got 'v2'"),
    ],
)
def test_a_setting_that_breaks_its_rule_is_refused(tiny, settings, says):
    with pytest.raises(ConfigError, match=says):
        SentenceTransformersEncoder(tiny, **settings)


def test_a_name_on_the_hub_is_fetched_at_its_revision(tiny, encoder, monkeypatch):
    import huggingface_hub

    asked = []

    def fetch(name, *, revision, allow_patterns):
        asked.append((name, revision, "*.py" in allow_patterns))
        return str(tiny)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    fetched = SentenceTransformersEncoder("someone/tiny", revision="v2", device="cpu")
    assert asked == [("someone/tiny", "v2", False)]
    assert fetched.identity == encoder.identity


def test_a_hub_that_cannot_be_reached_is_one_clear_error(monkeypatch):
    import huggingface_hub

    def fetch(name, **_):
        msg = "We couldn't connect\nto the hub"
        raise OSError(msg)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(ConfigError, match="got 'someone/tiny': We couldn't connect to the hub"):
        SentenceTransformersEncoder("someone/tiny")


def test_the_default_model_comes_from_the_hub_where_its_package_is_missing(tiny, monkeypatch):
    import huggingface_hub

    asked = []

    def fetch(name, **_):
        asked.append(name)
        return str(tiny)

    monkeypatch.setattr(model_folder, "find_spec", lambda name: None)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    SentenceTransformersEncoder(device="cpu")
    assert asked == ["sentence-transformers/all-MiniLM-L6-v2"]


def test_a_model_that_the_library_cannot_load_is_one_clear_error(tmp_path):
    folder = write_tiny_bert(tmp_path / "m", config={"model_type": "nonesuch"})
    with pytest.raises(ConfigError, match="must be a model that sentence-transformers can load"):
        SentenceTransformersEncoder(folder, device="cpu")


def test_a_failure_inside_the_library_is_an_encoder_error(tiny, monkeypatch):
    encoder = SentenceTransformersEncoder(tiny, device="cpu")

    def fail(*_, **__):
        msg = "out of memory"
        raise RuntimeError(msg)

    monkeypatch.setattr(encoder._model, "encode", fail)
    with pytest.raises(EncoderError, match=r"encoder .* failed on 1 texts: out of memory"):
        encoder.encode(["rain"])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (np.full((1, WIDTH), np.nan), "cannot be used: vectors must be finite"),
        (np.zeros((1, WIDTH)), "must not give zero vectors"),
        (np.ones((1, 3)), "vectors must have shape"),
        (np.ones((2, WIDTH)), "must give 1 vectors, got 2"),
    ],
)
def test_an_answer_that_is_no_set_of_vectors_is_an_encoder_error(tiny, monkeypatch, rows, says):
    encoder = SentenceTransformersEncoder(tiny, device="cpu")
    monkeypatch.setattr(encoder._model, "encode", lambda *_, **__: rows)
    with pytest.raises(EncoderError, match=says):
        encoder.encode(["rain"])


@pytest.mark.parametrize("texts", ["rain", ["rain", 5], ["\ud800"]])
def test_what_is_no_text_is_an_encoder_error(encoder, texts):
    with pytest.raises(EncoderError, match="texts"):
        encoder.encode(texts)


def test_a_closed_encoder_says_so(tiny):
    encoder = SentenceTransformersEncoder(tiny, device="cpu")
    encoder.close()
    with pytest.raises(EncoderError, match="must be open, got a call after close"):
        encoder.encode(["rain"])


def test_loading_writes_nothing_to_the_terminal(tiny, capfd):
    SentenceTransformersEncoder(tiny, device="cpu").encode(["rain"])
    assert capfd.readouterr() == ("", "")


def test_a_missing_library_names_the_extra(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"toolheads\[sentence-transformers\]"):
        SentenceTransformersEncoder(tiny)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_the_default_model_may_share_a_cache_with_the_local_encoder(compute_dtype):
    try:
        packaged_folder()
    except MissingExtraError as e:
        pytest.skip(str(e))
    one = SentenceTransformersEncoder(compute_dtype=compute_dtype, device="cpu")
    two = LocalEncoder(threads=1)
    texts = [*PROBE_TEXTS, "a long text about nothing " * 100, "", "naïve café ☕ 日本語"]
    cosines = np.einsum("nd,nd->n", one.encode(texts), two.encode(texts))
    assert cosines.min() >= 0.999
    keys = {Fingerprint(e.identity, TextSettings()).key for e in (one, two)}
    assert len(keys) == 1
