from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.made_heads import ALL_VIEWS, PLAIN, made_head, made_heads

from toolheads.cutoff import CutoffSettings
from toolheads.errors import ConfigError, DigestError, HeadsFormatError, ShapeError
from toolheads.heads import Head, container, digests, files, load_heads, save_heads
from toolheads.heads.container import to_bytes
from toolheads.heads.files import header_json, heads_from_bytes, heads_to_bytes

FULL = made_heads(
    views=ALL_VIEWS,
    cutoff=CutoffSettings(margin=0.1, max_k=7, min_k=2, threshold=0.25),
    training={"name": "full", "seed": 3, "note": "é — 工具", "metrics": {"ndcg@10": 0.5}},
)
GOOD = heads_to_bytes(FULL)


@dataclass(frozen=True)
class Mixed:
    """A fusion with a number and an array, as a stand-in for whatever is mixed."""

    weight: float = 0.5

    @property
    def arrays(self):
        return {"bias": np.full(3, self.weight, np.float32)}

    def to_json(self):
        return {"weight": self.weight}

    @classmethod
    def shapes(cls, data):
        if not isinstance(data, dict) or set(data) != {"weight"}:
            raise ConfigError(f"fusion must have the field weight, got {data!r}")
        return {"bias": (None,)}

    @classmethod
    def from_json(cls, data, arrays):
        if not (arrays["bias"] == data["weight"]).all():
            raise ShapeError("bias must be the weight")
        return cls(data["weight"])


WIDE = made_heads(
    state=dataclasses.replace(made_head(PLAIN), centre=np.arange(8, dtype=np.float32)),
    widths=(2, 5),
    fusion=Mixed(),
)
WIDE_GOOD = heads_to_bytes(WIDE)


def arrays_of(file):
    with np.load(io.BytesIO(file)) as npz:
        return dict(npz)


def with_header(text):
    return to_bytes(arrays_of(GOOD) | {"header": np.frombuffer(text, np.uint8)})


def changed(header=None, good=GOOD, **arrays):
    """The good file with other arrays (None: left out) or other header fields (None: left out)."""
    whole = arrays_of(good)
    if header is not None:
        fields = json.loads(whole["header"].tobytes()) | header
        text = json.dumps({k: v for k, v in fields.items() if v is not None})
        whole["header"] = np.frombuffer(text.encode(), np.uint8)
    whole |= {name.replace("__", "/"): array for name, array in arrays.items()}
    return to_bytes({name: array for name, array in whole.items() if array is not None})


def refuses(file):
    return pytest.raises(HeadsFormatError, match=f"^f.npz {file}")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_saved_heads_load_as_they_were(tmp_path, dtype):
    sha256 = save_heads(tmp_path / "h.npz", FULL, dtype=dtype)
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.sha256 == sha256
    assert loaded.header == FULL.header
    np.testing.assert_array_equal(loaded.probe, FULL.probe)
    for one, two in ((loaded.state, FULL.state), (loaded.action, FULL.action)):
        assert (one.architecture, one.alpha) == (two.architecture, two.alpha)
        for name, weight in two.weights.items():
            expected = weight.astype(dtype).astype(np.float32)
            np.testing.assert_array_equal(one.weights[name], expected)


def test_heads_in_float16_project_as_in_float32(tmp_path):
    save_heads(tmp_path / "h.npz", FULL)
    x = np.random.default_rng(5).normal(size=(50, 8))
    after = load_heads(tmp_path / "h.npz").state(x)
    assert (after * FULL.state(x)).sum(axis=1).min() > 0.99999


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path):
    first = save_heads(tmp_path / "one.npz", FULL)
    assert save_heads(tmp_path / "two.npz", load_heads(tmp_path / "one.npz")) == first
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_equal_heads_give_equal_bytes_in_another_process(tmp_path):
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, '.')\n"
        "from tests.unit.heads.test_files import GOOD\n"
        f"Path({str(tmp_path / 'h')!r}).write_bytes(GOOD)"
    )
    environ = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environ)
    assert (tmp_path / "h").read_bytes() == GOOD


def test_the_header_is_readable_json_with_everything_needed_to_use_the_heads():
    header = json.loads(arrays_of(GOOD)["header"].tobytes())
    assert header == header_json(FULL)
    assert sorted(header) == [
        "alpha",
        "architecture",
        "cutoff",
        "fingerprint",
        "format",
        "training",
        "views",
    ]
    assert header["format"] == 2


def test_the_sidecar_is_what_sha256sum_reads(tmp_path):
    sha256 = save_heads(tmp_path / "h.npz", FULL)
    assert (tmp_path / "h.npz.sha256").read_text() == f"{sha256}  h.npz\n"


def test_a_failed_save_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    save_heads(tmp_path / "h.npz", made_heads())
    before = (tmp_path / "h.npz").read_bytes()

    def disk_full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        save_heads(tmp_path / "h.npz", FULL)
    assert (tmp_path / "h.npz").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["h.npz", "h.npz.sha256"]


def test_a_flipped_byte_is_named_and_refused(tmp_path):
    save_heads(tmp_path / "h.npz", FULL)
    file = bytearray((tmp_path / "h.npz").read_bytes())
    file[len(file) // 2] ^= 1
    (tmp_path / "h.npz").write_bytes(file)
    with pytest.raises(DigestError, match=r"h.npz must have sha256 \w{64}, got \w{64}; it is dam"):
        load_heads(tmp_path / "h.npz")


def test_a_file_that_changed_between_two_loads_is_refused_by_the_second(tmp_path):
    save_heads(tmp_path / "h.npz", FULL)
    load_heads(tmp_path / "h.npz")
    (tmp_path / "h.npz").write_bytes(heads_to_bytes(made_heads()))
    with pytest.raises(DigestError, match="must have sha256"):
        load_heads(tmp_path / "h.npz")


def test_a_file_without_a_known_digest_loads_only_with_an_explicit_word(tmp_path):
    (tmp_path / "h.npz").write_bytes(GOOD)
    with pytest.raises(DigestError, match="must have a known sha256, got neither"):
        load_heads(tmp_path / "h.npz")
    assert load_heads(tmp_path / "h.npz", allow_unverified=True).name == "full"


def test_a_digest_that_is_known_is_checked_even_with_the_explicit_word(tmp_path):
    save_heads(tmp_path / "h.npz", FULL)
    (tmp_path / "h.npz").write_bytes(heads_to_bytes(made_heads()))
    with pytest.raises(DigestError, match="must have sha256"):
        load_heads(tmp_path / "h.npz", allow_unverified=True)


def test_a_digest_given_as_an_argument_is_enough_and_counts_more_than_the_sidecar(tmp_path):
    (tmp_path / "h.npz").write_bytes(GOOD)
    digest = digests.sha256_of(GOOD)
    assert load_heads(tmp_path / "h.npz", sha256=digest.upper()).sha256 == digest
    with pytest.raises(DigestError, match=r"must have sha256 0{64}, got"):
        load_heads(tmp_path / "h.npz", sha256="0" * 64)
    with pytest.raises(DigestError, match=r"the given sha256 must be .*, got 'abc'"):
        load_heads(tmp_path / "h.npz", sha256="abc")


def test_an_empty_digest_as_an_argument_is_not_taken_for_none(tmp_path):
    """`--sha256 "$DIGEST"` with the variable not set must not fall back to the sidecar."""
    save_heads(tmp_path / "h.npz", FULL)
    with pytest.raises(DigestError, match=r"the given sha256 must be a sha256 .*, got ''"):
        load_heads(tmp_path / "h.npz", sha256="")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "must be a heads file, but it is empty"),
        (b"no zip at all", "must be a heads file, but it is cut short or no .npz file"),
        (GOOD[:-100], "must be a heads file, but it is cut short"),
        (changed(header={"format": 3}), "has heads format 3, this version reads 1 and 2; export"),
        (changed(header={"format": "1"}), "has heads format '1', this version reads 1 and 2"),
        (changed(header={"format": True}), "has heads format True, this version reads 1 and 2"),
        (changed(header={"format": None}), ".*its header names no format"),
        (changed(header={"views": None}), ".*its header lacks 'views' and has too much: nothing"),
        (changed(header={"more": 1}), ".*its header lacks nothing and has too much: 'more'"),
        (changed(header={"architecture": 1}), ".*architecture must have the fields state, action"),
        (changed(header={"architecture": {"state": {}, "action": {}}}), ".*architecture must hav"),
        (changed(header={"alpha": {"state": 1}}), ".*alpha must have the fields state, action"),
        (changed(header={"alpha": {"state": "1", "action": 1}}), ".*alpha of state must be a num"),
        (changed(header={"alpha": {"state": 10**400, "action": 1}}), ".*alpha of state must be fi"),
        (changed(header={"alpha": {"state": 1e300, "action": 1}}), ".*alpha must be finite"),
        (changed(header={"fingerprint": {}}), ".*a fingerprint must have encoder and texts"),
        (changed(header={"fingerprint": []}), ".*a fingerprint must have encoder and texts"),
        (changed(header={"views": {"tool": {}, "query": {}}}), ".*tool views must map some of"),
        (changed(header={"cutoff": {"margin": -1}}), ".*cutoff must have the fields"),
        (changed(header={"training": [1]}), ".*training must be an object"),
        (changed(probe=None), ".*array 'probe' is missing"),
        (changed(state__more=np.zeros(1, np.float32)), ".*it lacks nothing and has too much: 'sta"),
        (changed(**{"state__in.bias": None}), ".*it lacks 'state/in.bias' and has too much: noth"),
        (changed(**{"state__in.bias": np.zeros(5, np.float32)}), r".*must have shape \(6\), got"),
        (changed(**{"state__in.bias": np.zeros(6, np.uint8)}), r".*must have dtype <f2 or <f4"),
        (
            changed(**{"state__in.bias": np.full(6, np.nan, np.float32)}),
            ".*in the state head in.bias",
        ),
        (changed(**{"state__in.bias": np.full(6, np.inf, np.float16)}), ".*in.bias must be finite"),
        (changed(probe=np.zeros((4, 7), np.float32)), r".*'probe' must have shape \(any, 8\)"),
        (changed(probe=np.zeros((4, 8), np.float16)), ".*'probe' must have dtype <f4"),
        (changed(probe=np.zeros((0, 8), np.float32)), ".*probe must have at least one row"),
        (changed(probe=np.full((4, 8), np.nan, np.float32)), ".*probe must be finite"),
    ],
)
def test_a_file_with_a_fault_is_refused_in_one_clear_line(file, message):
    with refuses(message) as caught:
        heads_from_bytes(file, "f.npz")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.fixture
def mixed(monkeypatch):
    monkeypatch.setattr(files, "Fusion", Mixed)


@pytest.mark.usefixtures("mixed")
def test_widths_centre_and_fusion_load_as_they_were_saved(tmp_path):
    sha256 = save_heads(tmp_path / "h.npz", WIDE)
    loaded = load_heads(tmp_path / "h.npz")
    assert loaded.header.widths == (2, 5)
    np.testing.assert_array_equal(loaded.state.centre, np.arange(8))
    assert loaded.action.centre is None
    assert isinstance(loaded.fusion, Mixed)  # type: ignore[unreachable, unused-ignore]
    assert loaded.fusion.weight == 0.5
    assert save_heads(tmp_path / "again.npz", loaded) == sha256


def test_what_is_not_used_is_not_in_the_file():
    assert set(header_json(WIDE)) - set(header_json(FULL)) == {"widths", "centre", "fusion"}
    assert set(arrays_of(WIDE_GOOD)) - set(arrays_of(GOOD)) == {"centre/state", "fusion/bias"}


def test_a_centre_is_kept_in_float32_whatever_the_precision_of_the_weights():
    assert arrays_of(WIDE_GOOD)["centre/state"].dtype == np.float32


def test_a_narrowed_view_of_heads_is_not_saved(tmp_path):
    with pytest.raises(ConfigError, match="must have their full width 8 to be saved, got heads th"):
        save_heads(tmp_path / "h.npz", WIDE.at_width(2))


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"header": {"format": 1}}, "its header lacks nothing and has too much: 'centre', 'fusion"),
        ({"header": {"widths": []}}, "widths must be a list of whole numbers or left out, got"),
        ({"header": {"widths": 2}}, "widths must be a list of whole numbers or left out, got 2"),
        ({"header": {"widths": [2.0]}}, "widths must be rising whole numbers"),
        ({"header": {"widths": [True]}}, "widths must be rising whole numbers"),
        ({"header": {"widths": ["2"]}}, "widths must be rising whole numbers"),
        ({"header": {"widths": [5, 2]}}, "widths must be rising whole numbers"),
        ({"header": {"widths": [[2]]}}, "widths must be rising whole numbers"),
        ({"header": {"widths": [8]}}, r"widths must be rising whole numbers in \[1, 8\), got"),
        ({"header": {"centre": []}}, "centre must list state, action or both in this order"),
        ({"header": {"centre": "state"}}, "centre must list state, action or both"),
        ({"header": {"centre": ["state", "state"]}}, "centre must list state, action or both"),
        ({"header": {"centre": ["both"]}}, "centre must list state, action or both"),
        ({"header": {"centre": ["action"]}}, "lacks 'centre/action' and has too much: 'centre/st"),
        ({"header": {"centre": None}}, "it lacks nothing and has too much: 'centre/state'"),
        ({"header": {"fusion": {}}}, "in its header fusion must have the field weight"),
        ({"header": {"fusion": None}}, "it lacks nothing and has too much: 'fusion/bias'"),
        ({"header": {"fusion": {"weight": 0.25}}}, "bias must be the weight"),
        ({"centre__state": None}, "it lacks 'centre/state' and has too much: nothing"),
        ({"centre__state": np.zeros(7, np.float32)}, r"must have shape \(8\), got \(7,\)"),
        ({"centre__state": np.zeros(8, np.float16)}, "'centre/state' must have dtype <f4"),
        ({"centre__state": np.full(8, np.nan, np.float32)}, "in the state head centre must be fi"),
        ({"fusion__bias": None}, "it lacks 'fusion/bias' and has too much: nothing"),
        ({"fusion__more": np.zeros(3, np.float32)}, "has too much: 'fusion/more'"),
        ({"fusion__bias": np.zeros((3, 1), np.float32)}, r"must have shape \(any\), got \(3, 1\)"),
    ],
)
def test_a_fault_in_what_format_2_adds_is_refused_in_one_clear_line(change, message):
    with refuses(f".*{message}") as caught:
        heads_from_bytes(changed(good=WIDE_GOOD, **change), "f.npz")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.usefixtures("mixed")
@given(st.data())
def test_no_damage_to_format_2_gets_past_the_reader_as_anything_but_its_own_error(data):
    file = bytearray(WIDE_GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        heads = heads_from_bytes(bytes(file), "f.npz")
    except HeadsFormatError:
        return
    assert np.isfinite(heads.state(np.ones(8))).all()


@pytest.mark.parametrize(
    "text",
    [b"{", b"\xff\xfe", b"[1]", b"1", b"null", b'{"format": NaN}', b"[" * 100_000, b""],
)
def test_a_header_that_is_no_json_object_is_refused(text):
    with refuses(".*its header (is no JSON in UTF-8|names no format)"):
        heads_from_bytes(with_header(text), "f.npz")


def test_a_header_of_another_dtype_is_refused():
    file = to_bytes(arrays_of(GOOD) | {"header": np.zeros(3, np.float32)})
    with refuses(r".*array 'header' must have dtype \|u1, got '<f4'"):
        heads_from_bytes(file, "f.npz")


def test_a_header_beyond_its_limit_is_refused():
    with refuses(".*its header has 1048577 bytes, more than 1048576"):
        heads_from_bytes(with_header(b" " * ((1 << 20) + 1)), "f.npz")


def test_a_file_beyond_the_limit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(digests, "LARGEST_FILE", 1000)
    with (tmp_path / "h.npz").open("wb") as sparse:
        sparse.truncate(1001)
    with pytest.raises(HeadsFormatError, match=r"h.npz must have at most 1000 bytes, got 1001"):
        load_heads(tmp_path / "h.npz", allow_unverified=True)


def test_the_limit_leaves_room_for_the_largest_heads_in_use():
    assert container.LARGEST_FILE > 8 * 60_000_000


@pytest.mark.parametrize(
    ("path", "message"),
    [("none.npz", "got: No such file or directory"), ("folder.npz", "got a folder or device")],
)
def test_a_path_that_is_no_file_is_named(tmp_path, path, message):
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(HeadsFormatError, match=message):
        load_heads(tmp_path / path, allow_unverified=True)


def test_a_name_with_a_null_byte_is_refused():
    with pytest.raises(ConfigError, match="must be a path without null characters"):
        load_heads("a\0.npz", allow_unverified=True)


@given(st.data())
def test_no_damage_gets_past_the_reader_as_anything_but_its_own_error(data):
    file = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(file) - 1))
        file[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(file)) | st.just(len(file)))
    try:
        heads = heads_from_bytes(bytes(file[:cut]), "f.npz")
    except HeadsFormatError:
        return
    assert np.isfinite(heads.state(np.ones(8))).all()


def test_weights_beyond_float16_are_refused_and_saved_in_float32(tmp_path):
    weights = dict(made_head(PLAIN).weights) | {"in.bias": np.full(6, 70_000, np.float32)}
    heads = made_heads(action=Head(PLAIN, 1.0, weights))
    with pytest.raises(
        ShapeError, match=r"action/in.bias must be within 65504 .*use dtype float32"
    ):
        save_heads(tmp_path / "h.npz", heads)
    save_heads(tmp_path / "h.npz", heads, dtype="float32")
    assert load_heads(tmp_path / "h.npz").action.weights["in.bias"][0] == 70_000


@pytest.mark.parametrize("training", [{"x": np.float32(1)}, {"x": float("nan")}, {"x": {1, 2}}])
def test_a_header_that_is_more_than_json_is_not_written(tmp_path, training):
    with pytest.raises(ConfigError, match="training must hold JSON types without NaN"):
        save_heads(tmp_path / "h.npz", made_heads(training=training))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "dtype", "message"),
    [("h.bin", "float16", "path must end in .npz"), ("h.npz", "int8", "dtype must be one of")],
)
def test_settings_that_cannot_be_saved_are_refused(tmp_path, name, dtype, message):
    with pytest.raises(ConfigError, match=message):
        save_heads(tmp_path / name, FULL, dtype=dtype)


def test_the_digest_of_the_file_is_no_part_of_the_file(tmp_path):
    named = dataclasses.replace(FULL, sha256="f" * 64)
    assert files.heads_to_bytes(named) == GOOD
