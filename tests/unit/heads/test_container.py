from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toolheads.errors import HeadsFormatError
from toolheads.heads.container import Container, to_bytes

ARRAYS: dict[str, Any] = {
    "b/one": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a": np.arange(3, dtype=np.uint8),
    "c": np.arange(4, dtype=np.float16),
}


def zipped(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def npy(array, version=(1, 0)):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=True)
    return file.getvalue()


def test_numpy_reads_what_is_written():
    read = np.load(io.BytesIO(to_bytes(ARRAYS)), allow_pickle=False)
    assert sorted(read.files) == ["a", "b/one", "c"]
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype


@given(
    hnp.arrays(
        st.sampled_from(["<f2", "<f4", "|u1"]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0),
    )
)
def test_an_array_reads_back_as_it_was(array):
    container = Container(to_bytes({"x": array}), "x.npz")
    found = container.read("x", (array.dtype.str,), (None,) * array.ndim)
    np.testing.assert_array_equal(found, array)
    assert found.shape == array.shape


def test_equal_arrays_give_equal_bytes_in_any_order_and_layout():
    turned = {name: np.asfortranarray(a) for name, a in reversed(ARRAYS.items())}
    turned["b/one"] = turned["b/one"].astype(">f4")
    assert to_bytes(turned) == to_bytes(ARRAYS)


def test_the_bytes_are_those_of_the_format_and_no_clock_or_library_changes_them():
    """Worked by hand from the .npy specification: magic, version, length, header to 64, data."""
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }"
    padded = header + b" " * (128 - 10 - len(header) - 1) + b"\n"
    expected = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + padded + struct.pack("<2f", 1, 2)
    file = to_bytes({"x": np.array([[1], [2]], np.float32)})
    member = zipfile.ZipFile(io.BytesIO(file)).getinfo("x.npy")
    assert file[30 + len("x.npy") :][: len(expected)] == expected
    assert (member.date_time, member.create_system) == ((1980, 1, 1, 0, 0, 0), 3)


def test_arrays_of_other_dtypes_are_not_written():
    with pytest.raises(HeadsFormatError, match=r"must have one of the dtypes .*, got float64"):
        to_bytes({"x": np.zeros(2)})


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04", "it is cut short or no .npz file"),
        (b"{}", "it is cut short or no .npz file"),
        (to_bytes(ARRAYS)[:-1], "it is cut short or no .npz file"),
        (to_bytes(ARRAYS)[: len(to_bytes(ARRAYS)) // 2], "it is cut short or no .npz file"),
        (zipped({"readme.txt": b"hi"}), "'readme.txt' is no array"),
        (zipped({"x.npy": npy(np.zeros(9))}, zipfile.ZIP_DEFLATED), "is compressed or encrypted"),
        (zipped({"x.npy": bytes(1 << 20)}, zipfile.ZIP_BZIP2), "is compressed or encrypted"),
        (zipped({"x.npy": bytes(1 << 20)}, zipfile.ZIP_LZMA), "is compressed or encrypted"),
    ],
)
def test_a_file_that_is_no_container_is_refused(file, message):
    with pytest.raises(HeadsFormatError, match=f"^f.npz must be a heads file, but .*{message}"):
        Container(file, "f.npz")


def test_a_name_that_is_there_twice_is_refused():
    file = zipped({"x.npy": b"1", "y.npy": b"2"}).replace(b"y.npy", b"x.npy")
    with pytest.raises(HeadsFormatError, match=r"'x.npy' is there twice"):
        Container(file, "f.npz")


def test_members_that_lie_over_each_other_are_refused():
    """The trick of a zip bomb without compression: a thousand entries for the same bytes."""
    once = zipped({"000.npy": bytes(3000)})
    directory = once.index(b"PK\x01\x02")
    entry = once[directory : once.index(b"PK\x05\x06")]
    entries = [entry.replace(b"000.npy", b"%03d.npy" % i) for i in range(1000)]
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1000, 1000, len(entry) * 1000, directory, 0)
    with pytest.raises(HeadsFormatError, match="its members are larger than the file"):
        Container(once[:directory] + b"".join(entries) + end, "f.npz")


def test_a_member_that_claims_more_than_the_file_has_is_refused():
    file = zipped({"x.npy": bytes(100)})
    claimed = file.replace(struct.pack("<2L", 100, 100), struct.pack("<2L", 1 << 31, 1 << 31))
    with pytest.raises(HeadsFormatError, match=r"'x.npy' claims 2147483648 bytes"):
        Container(claimed, "f.npz")


def test_a_flipped_byte_in_an_array_is_named():
    file = bytearray(to_bytes(ARRAYS))
    file[file.index(ARRAYS["c"].tobytes())] ^= 1
    with pytest.raises(HeadsFormatError, match="array 'c' is damaged"):
        Container(bytes(file), "f.npz").read("c", ("<f2",), (None,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not in .npy version 1.0"),
        (npy(np.zeros(4, np.float32), version=(2, 0)), "is not in .npy version 1.0"),
        (npy(np.zeros(4, np.float32))[:40], "has an unreadable .npy header"),
        (npy(np.zeros(4, np.float32)).replace(b"descr", b"xescr"), "unreadable .npy header"),
        (npy(np.zeros(4, np.float32)).replace(b"(4,)", b"(4L)"), "unreadable .npy header"),
        (npy(np.zeros(4)), "must have dtype <f2 or <f4, got '<f8'"),
        (npy(np.zeros(4, ">f4")), "must have dtype <f2 or <f4, got '>f4'"),
        (npy(np.array([{}] * 4, object)), r"must have dtype <f2 or <f4, got '\|O'"),
        (npy(np.zeros(3, np.float32)), r"must have shape \(4\), got \(3,\)"),
        (npy(np.zeros((4, 1), np.float32)), r"must have shape \(4\), got \(4, 1\)"),
        (npy(np.zeros(4, np.float32))[:-1], r"has 15 bytes for shape \(4,\)"),
        (npy(np.zeros(4, np.float32)) + b"0", r"has 17 bytes for shape \(4,\)"),
    ],
)
def test_an_array_that_is_not_as_expected_is_refused(content, message):
    container = Container(zipped({"x.npy": content}), "f.npz")
    with pytest.raises(HeadsFormatError, match=f"array 'x' .*{message}"):
        container.read("x", ("<f2", "<f4"), (4,))


def test_a_shape_beyond_all_memory_is_refused_without_asking_for_it():
    small = npy(np.zeros((10, 10), np.float32))
    huge = small.replace(b"(10, 10), }" + b" " * 14, b"(999999999, 999999999), }")
    assert len(huge) == len(small)
    container = Container(zipped({"x.npy": huge}), "f.npz")
    with pytest.raises(HeadsFormatError, match=r"has 400 bytes for shape \(999999999, 999999999\)"):
        container.read("x", ("<f4",), (None, None))


def test_an_array_in_fortran_order_is_refused():
    content = npy(np.asfortranarray(np.zeros((3, 4), np.float32)))
    with pytest.raises(HeadsFormatError, match="in Fortran order"):
        Container(zipped({"x.npy": content}), "f.npz").read("x", ("<f4",), (3, 4))


@pytest.mark.filterwarnings("ignore")
def test_a_header_that_numpy_only_warns_of_is_refused():
    content = npy(np.zeros(4, np.float32)).replace(b"(4,), }   ", b"(4L,), }  ")
    with pytest.raises(HeadsFormatError, match=r"unreadable .npy header"):
        Container(zipped({"x.npy": content}), "f.npz").read("x", ("<f4",), (4,))
