"""The statement of a QUERY event, found and compared in its bytes, for kernels.

Source: MySQL source documentation, "Query_event".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from cdc_core.binlog.events import HEADER
from cdc_core.compiled.kernel import BYTES, PAIR, int64, kernel
from cdc_core.compiled.memory import little

_FIXED = 13  # bytes of the body before the status variables; at 8 the length of the database's name, at 11 theirs

BEGIN, COMMIT, ROLLBACK, SAVEPOINT, XA_START = (
    np.frombuffer(word, np.uint8) for word in (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT ", b"XA START ")
)


@kernel(PAIR(BYTES, types.int64, types.int64))
def query_text(data: Any, offset: int, length: int) -> tuple[int, int]:
    """Offset and size of the statement of the QUERY event at `offset`; size -1 when the event is too short."""
    body, stop = offset + HEADER, offset + length
    if body + _FIXED > stop:
        return body, -1
    start = body + _FIXED + little(data, body + 11, 2) + int64(data[body + 8]) + 1
    return start, stop - start


@kernel(types.boolean(BYTES, types.int64, types.int64, BYTES))
def starts_with(data: Any, at: int, size: int, word: Any) -> bool:
    """Whether the `size` bytes at `at` begin with a word."""
    if size < word.size:
        return False
    for i in range(word.size):  # noqa: SIM110 (kernels have no generators)
        if data[at + i] != word[i]:
            return False
    return True
