"""Deletion vectors: which rows of a file are deleted, by their places in it.

delta-rs shows no vector, and Spark takes seconds to start. Source: Delta's protocol, "Deletion Vector Format"; the
specification of Roaring bitmaps.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pyarrow.fs import FileSystem

from cdc_core.errors import LakeError

Places = npt.NDArray[np.int64]
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85, _TO_Z85 = bytes.maketrans(_Z85, _B85), bytes.maketrans(_B85, _Z85)
_MAGIC = 1681511377
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346  # the cookies of a bitmap
_SPARSE = 4096  # values of a container that lists them
_DENSE_BYTES = 8192
_UUID = 20  # characters
_NO_OFFSETS = 4  # containers: a bitmap with runs and fewer of them has no offsets
_HINT = "Read these rows in the source's binlog, or in Spark: SELECT ... VERSION AS OF."


def identity(vector: Mapping[str, Any] | None) -> str:
    """Returns a text that identifies the file's deletion vector, "" for a file without one."""
    return f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""


def deleted_places(vector: Mapping[str, Any] | None, folder: FileSystem) -> Places:
    """Returns the places of the deleted rows, rising. `vector` is as in the commit, None for none; `folder` is the
    table's. Raises LakeError for a form that is unknown, OSError if it cannot be read."""
    if not vector:
        return np.empty(0, np.int64)
    kind, where = vector["storageType"], str(vector["pathOrInlineDv"])
    if kind == "i":
        return places_in(_decoded(where))
    if kind != "u":
        raise LakeError("a deletion vector lies outside of its table", place=where, hint=_HINT)
    with folder.open_input_file(vector_file(where)) as file:
        file.seek(int(vector.get("offset") or 0))
        (size,) = struct.unpack(">i", file.read(4))
        return places_in(file.read(size))


def vector_file(where: str) -> str:
    """Returns the path in the table of the file of a vector of kind `u`."""
    prefix, name = where[:-_UUID], UUID(bytes=_decoded(where[-_UUID:]))
    return f"{prefix}/deletion_vector_{name}.bin".lstrip("/")


def renamed(where: str, name: UUID) -> str:
    """Returns the same for a file with another name."""
    return where[:-_UUID] + base64.b85encode(name.bytes).translate(_TO_Z85).decode()


def _decoded(text: str) -> bytes:
    return base64.b85decode(text.encode().translate(_FROM_Z85))


def places_in(data: bytes) -> Places:
    """Returns the numbers in a portable array of Roaring bitmaps. Raises LakeError for another form."""
    magic, count = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise LakeError("a deletion vector has an unknown form", place=f"magic number {magic}", hint=_HINT)
    at, found = 12, list[Places]()
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        low, at = _bitmap(data, at + 4)
        found.append(low + (high << 32))
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _bitmap(data: bytes, at: int) -> tuple[Places, int]:
    """Returns the numbers of a bitmap, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    runs, at = np.zeros(0, np.uint8), at + 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        size = (count + 7) // 8
        runs = np.unpackbits(np.frombuffer(data, np.uint8, size, at), bitorder="little")
        at += size
        offsets = count >= _NO_OFFSETS
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, at)
        at, offsets = at + 4, True
    else:
        raise LakeError("a deletion vector has an unknown form", place=f"cookie {cookie}", hint=_HINT)
    heads = np.frombuffer(data, "<u2", 2 * count, at).reshape(count, 2).astype(np.int64)
    at += 4 * count + (4 * count if offsets else 0)
    found = list[Places]()
    for number, (key, less_one) in enumerate(heads.tolist()):
        is_run = number < len(runs) and bool(runs[number])
        values, at = _container(data, at, less_one + 1, is_run=is_run)
        found.append(values + (key << 16))
    return (np.concatenate(found) if found else np.empty(0, np.int64)), at


def _container(data: bytes, at: int, count: int, *, is_run: bool) -> tuple[Places, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).reshape(runs, 2).tolist()
        values = [np.arange(low, low + more + 1, dtype=np.int64) for low, more in pairs]
        return (np.concatenate(values) if values else np.empty(0, np.int64)), at + 2 + 4 * runs
    if count <= _SPARSE:
        return np.frombuffer(data, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _DENSE_BYTES, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), at + _DENSE_BYTES
