"""The container of a heads file: an uncompressed .npz, written byte for byte by this module.

`numpy.load` reads it too. It is written here, and not by `numpy.savez`, so that equal arrays give
equal bytes whatever version of numpy is installed; it is read here so that nothing a stranger
puts into a file is believed before it is checked. Knows arrays and bytes, nothing of heads.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from toolheads.errors import HeadsFormatError

LARGEST_FILE = 1 << 30
"""Bytes of a file. The largest heads in use (4096-d, hidden 1536 twice) have 60 MB in float16."""

_ALIGNMENT = 64
_MAGIC = b"\x93NUMPY\x01\x00"
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX, _MODE = 3, 0o100644
_DTYPES = ("<f2", "<f4", "|u1")

Arrays = Mapping[str, npt.NDArray[Any]]


def to_bytes(arrays: Arrays) -> bytes:
    """Write arrays as an .npz file.

    Args:
        arrays: Name → array of dtype float16, float32 or uint8.

    Returns:
        The file. A function of names, dtypes, shapes and values alone.
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", _DATE)
            member.create_system = _UNIX
            member.external_attr = _MODE << 16
            archive.writestr(member, _array_bytes(arrays[name]))
    return file.getvalue()


class Container:
    """An .npz file in memory, its table of contents checked, its arrays read on request.

    Args:
        file: The whole file.
        name: The file as the caller knows it; used in errors.

    Raises:
        HeadsFormatError: If it is no zip file, or has a member that this module does not write.
    """

    def __init__(self, file: bytes, name: str) -> None:
        self._name = name
        if not file:
            self._refuse("it is empty")
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(file))
            members = self._archive.infolist()
        except _ZIP_ERRORS as e:
            self._refuse("it is cut short or no .npz file", e)
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            self._check_member(member, len(file))
            self._members[member.filename.removesuffix(".npy")] = member
        # Members that lie over each other would let a small file unfold to a large one.
        if sum(member.file_size for member in members) > len(file):
            self._refuse("its members are larger than the file")

    def _check_member(self, member: zipfile.ZipInfo, file_size: int) -> None:
        name = member.filename
        if not name.endswith(".npy"):
            self._refuse(f"{name!r:.80} is no array")
        if name.removesuffix(".npy") in self._members:
            self._refuse(f"{name!r:.80} is there twice")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            self._refuse(f"{name!r:.80} is compressed or encrypted")
        if member.file_size != member.compress_size or member.file_size > file_size:
            self._refuse(f"{name!r:.80} claims {member.file_size} bytes")

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays."""
        return frozenset(self._members)

    def read(
        self, name: str, dtypes: Sequence[str], shape: tuple[int | None, ...]
    ) -> npt.NDArray[Any]:
        """Read one array.

        Args:
            name: One of `names`.
            dtypes: Which of `<f2`, `<f4`, `|u1` it may have.
            shape: The shape it must have; None takes any size of that axis.

        Returns:
            A read-only view of the file's bytes.

        Raises:
            HeadsFormatError: If it is damaged, or of another dtype or shape.
        """
        try:
            raw = self._archive.read(self._members[name])
        except _ZIP_ERRORS as e:
            self._refuse(f"array {name!r} is damaged", e)
        file = io.BytesIO(raw)
        if file.read(len(_MAGIC)) != _MAGIC:
            self._refuse(f"array {name!r} is not in .npy version 1.0")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpy only warns of headers of Python 2
                found, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        except (Warning, ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as e:
            self._refuse(f"array {name!r} has an unreadable .npy header", e)
        if dtype.str not in dtypes:
            allowed = " or ".join(dtypes)
            self._refuse(f"array {name!r} must have dtype {allowed}, got {dtype.str!r:.80}")
        fits = len(found) == len(shape) and all(
            want in (None, got) for want, got in zip(shape, found, strict=True)
        )
        if fortran or not fits:
            want = ", ".join("any" if side is None else str(side) for side in shape)
            order = " in Fortran order" if fortran else ""
            self._refuse(f"array {name!r} must have shape ({want}), got {found}{order}")
        body = file.tell()
        if math.prod(found) * dtype.itemsize != len(raw) - body:
            self._refuse(f"array {name!r} has {len(raw) - body} bytes for shape {found}")
        return np.frombuffer(raw, dtype, offset=body).reshape(found)

    def _refuse(self, reason: str, cause: Exception | None = None) -> NoReturn:
        msg = f"{self._name} must be a heads file, but {reason}; get or export it anew"
        raise HeadsFormatError(msg) from cause


_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    NotImplementedError,  # zipfile's word for compression and versions it does not know
    RuntimeError,
    EOFError,
    OSError,
    OverflowError,
    ValueError,
    struct.error,
)


def _array_bytes(array: npt.NDArray[Any]) -> bytes:
    """One array in .npy version 1.0, as its specification in numpy's documentation says."""
    dtype = array.dtype.newbyteorder("<").str
    if dtype not in _DTYPES:
        msg = f"an array must have one of the dtypes {', '.join(_DTYPES)}, got {array.dtype}"
        raise HeadsFormatError(msg)
    sides = ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "")
    about = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({sides}), }}"
    fixed = len(_MAGIC) + 2 + len("\n")
    header = about + " " * (-(fixed + len(about)) % _ALIGNMENT) + "\n"
    body = np.ascontiguousarray(array, dtype=np.dtype(dtype)).tobytes()
    return _MAGIC + struct.pack("<H", len(header)) + header.encode("ascii") + body
