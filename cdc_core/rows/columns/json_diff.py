"""Partial updates of JSON: the logged changes, applied to the text of the document before.

This is Python, document by document: such updates are rare, and only they pay. Numbers keep their text.
Source: MySQL source documentation, "Partial JSON", `Json_diff`; order of keys: by length in bytes, then by bytes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from cdc_core.compiled.kernel import Bytes, Longs
from cdc_core.rows.columns import json_text
from cdc_core.rows.columns.arrays import strings
from cdc_core.rows.columns.cells import Cells

_REPLACE, _INSERT, _REMOVE = range(3)
_WIDE = {252: 2, 253: 3, 254: 8}  # bytes of a packed length after its first


class _Number(str):
    """A number as it is written."""


def documents(cells: Cells, before: Longs) -> list[str]:
    """The documents after their changes. `cells.starts` are where the diffs start, at their length of four bytes;
    `before` where the documents before start. Raises DecodeError for a diff that is damaged or does not fit."""
    whole = json_text.decode(replace(cells, starts=before)).to_pylist()
    found = []
    for image, (start, text) in enumerate(zip(cells.starts.tolist(), whole, strict=True)):
        try:
            size = int.from_bytes(cells.data[start : start + 4], "little")
            found.append(_applied(text, bytes(cells.data[start + 4 : start + 4 + size]), cells))
        except (LookupError, ValueError, TypeError, RecursionError) as error:
            raise cells.error(image, f"the partial JSON update does not fit its document ({error})") from error
    return found


def _applied(text: str, diffs: bytes, cells: Cells) -> str:
    """One document with its diffs, in order."""
    holder: list[Any] = [_parsed(text)]  # in a list, so that a diff can replace the whole document
    at = 0
    while at < len(diffs):
        operation, (size, at) = diffs[at], _length(diffs, at + 1)
        legs, at = _legs(diffs[at : at + size].decode()), at + size
        value = None
        if operation != _REMOVE:
            size, at = _length(diffs, at)
            value, at = _value(diffs[at : at + size], cells), at + size
        _change(operation, holder, [0, *legs], value)
    return _written(holder[0])


def _change(operation: int, document: list[Any], legs: list[str | int], value: Any) -> None:
    place: Any = document
    for leg in legs[:-1]:
        place = place[leg]
    last = legs[-1]
    if operation == _REMOVE:
        del place[last]
    elif operation == _INSERT and isinstance(place, list):
        place.insert(int(last), value)
    elif operation == _INSERT or (operation == _REPLACE and (isinstance(place, list) or last in place)):
        place[last] = value
    else:
        raise ValueError(f"operation {operation} at {last!r}")


def _value(binary: bytes, cells: Cells) -> Any:
    data: Bytes = np.frombuffer(len(binary).to_bytes(4, "little") + binary, np.uint8)
    one = replace(cells, data=data, starts=np.zeros(1, np.int64), column=replace(cells.column, meta=4))
    return _parsed(json_text.decode(one).to_pylist()[0])


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A packed length and what follows it."""
    wide = _WIDE.get(data[at], 0)
    return (int.from_bytes(data[at + 1 : at + 1 + wide], "little") if wide else data[at]), at + 1 + wide


def _legs(path: str) -> list[str | int]:
    """`$.a."b c"[3]` as a, b c, 3."""
    legs: list[str | int] = []
    at = 1
    while at < len(path):
        if path[at] == "[":
            end = path.index("]", at)
            legs.append(int(path[at + 1 : end]))
            at = end + 1
        elif path[at : at + 2] == '."':
            name, at = json.JSONDecoder().raw_decode(path, at + 1)
            legs.append(str(name))
        else:
            end = min((found for found in (path.find(mark, at + 1) for mark in ".[") if found > 0), default=len(path))
            legs.append(path[at + 1 : end])
            at = end
    return legs


def _parsed(text: str) -> Any:
    return json.loads(text, parse_int=_Number, parse_float=_Number, strict=False)


def _written(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        ordered = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        return "{" + ", ".join(f"{_written(name)}: {_written(value[name])}" for name in ordered) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def patched(values: Any, rows: list[int], texts: list[str]) -> Any:
    """An Arrow column of documents, with new texts in some rows."""
    documents = values.to_pylist()
    for row, text in zip(rows, texts, strict=True):
        documents[row] = text
    return strings(documents)
