"""The rows that were read with the log over them, against a model in Python, on Spark."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from spark_jobs.lake.equality import FEWER_COPIES
from spark_jobs.load.change_log import folded
from spark_jobs.session import Sessions
from tests.support.change_images import logged

pytestmark = [pytest.mark.integration, pytest.mark.full]
FIELDS = [("0", pa.int32()), ("1", pa.string()), ("2", pa.float64())]
TYPES = ["int", "string", "double"]
Row = tuple[Any, ...]
LOW, UPTO, HIGH = 100, 200, 260


def write(path: Path, rows: Sequence[Row], fields: Sequence[tuple[str, pa.DataType]]) -> str:
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, fields, strict=True)]
    write_deltalake(str(path), pa.Table.from_arrays(arrays, schema=pa.schema(list(fields))))
    return str(path)


def shown(row: Row) -> Row:
    """Tells -0.0 from 0.0."""
    return tuple((value, math.copysign(1, value)) if isinstance(value, float) else value for value in row)


def found(sessions: Sessions, tmp: Path, staged: Sequence[Row], log: Sequence[Row], key: Sequence[int]) -> Counter[Row]:
    paths = write(tmp / "rows", staged, FIELDS), str(tmp / "changes")
    write_deltalake(paths[1], logged([pa.field(*field) for field in FIELDS], log))
    with sessions.take() as spark:
        table = folded(spark, *paths, TYPES, key, LOW, UPTO).toArrow()
    return Counter(shown(tuple(row.values())) for row in table.to_pylist())


def test_the_last_change_of_each_key_counts(sessions: Sessions, tmp_path: Path) -> None:
    """Rows are read at different times between the two places of the snapshot; what changed up to the switch is as it
    was there. Keys are strings with their case, and doubles, of which 0.0 is -0.0."""
    chosen = random.Random(7)
    states: list[dict[Row, Row]] = [{}]
    log: list[Row] = []
    touched: set[Row] = set()
    for at in range(1, HIGH):
        state = dict(states[-1])
        key = (chosen.choice("aAbBcdé"), chosen.choice((0.0, 1.5, 2.5, 3.5)))
        old = state.pop(key, None)
        if old is not None:
            log.append((*old, at, 2 * at, True))
        if old is None or chosen.random() < 0.6:
            state[key] = (chosen.choice((None, at)), key[0], chosen.choice((-0.0, 0.0)) if not key[1] else key[1])
            log.append((*state[key], at, 2 * at + 1, False))
        if LOW < at <= UPTO:
            touched.add(key)
        states.append(state)
    keys = {key for state in states for key in state}
    times = {key: chosen.randint(LOW, HIGH - 1) for key in keys}
    staged = [states[times[key]][key] for key in keys if key in states[times[key]]]
    expected = [states[UPTO if key in touched else times[key]].get(key) for key in keys]
    assert found(sessions, tmp_path, staged, log, [1, 2]) == Counter(shown(row) for row in expected if row)


def test_without_a_key_each_change_is_one_copy(sessions: Sessions, tmp_path: Path) -> None:
    """Rows that are equal many times over, with NULLs and both zeros, that come and go and come again."""
    chosen = random.Random(11)
    rows: list[Row] = [
        (number, text, zero) for number in (None, 1) for text in (None, "x") for zero in (0.0, -0.0, None)
    ]
    now, log, staged, expected = Counter[Row](), list[Row](), list[Row](), Counter[Row]()
    there: list[Row] = []
    for at in range(1, HIGH):
        gone = bool(there) and chosen.random() < 0.45
        row = there.pop(chosen.randrange(len(there))) if gone else chosen.choice(rows)
        if not gone:
            there.append(row)
        now[shown(row)] += -1 if gone else 1
        log.append((*row, at, at, gone))
        if at == LOW:
            staged = list(there)
        if at == UPTO:
            expected = +now
    assert found(sessions, tmp_path, staged, log, []) == expected


def test_a_log_that_takes_what_was_not_read_is_reported(sessions: Sessions, tmp_path: Path) -> None:
    """Without a key, a delete of a row that is not there is an error, not a row less."""
    with pytest.raises(PySparkException, match=FEWER_COPIES):
        found(sessions, tmp_path, [(1, "x", 0.0)], [(1, "x", -0.0, 150, 1, True)], [])
