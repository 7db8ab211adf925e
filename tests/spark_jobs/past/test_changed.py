"""Images as changes."""

from __future__ import annotations

from datetime import date

import pyarrow as pa

from spark_jobs.changes.columns import OP, VERSION
from spark_jobs.past.changed import ChangedRow, changed_rows

_NAMES = {"i": "insert", "b": "update_before", "a": "update_after", "d": "delete", "t": "truncate"}


def images(*each: str) -> list[pa.RecordBatch]:
    """Batches of images, as `i1` or `b1`: the operation, and the row's one value. The version is the image's number."""
    found, number = [], 0
    for batch in each:
        words = batch.split()
        ops = [_NAMES[word[0]] for word in words]
        values = [int(word[1:]) if word[1:] else None for word in words]
        numbers = list(range(number, number + len(words)))
        number += len(words)
        found.append(pa.RecordBatch.from_pydict({"v": values, OP: ops, VERSION: pa.array(numbers, pa.int64())}))
    return found


class TestChangedRows:
    def test_pairs(self) -> None:
        """The two images of an update are one change, also where they stand in two batches."""
        found = list(changed_rows(images("i1 b1", "a2 d2")))
        assert found == [
            ChangedRow("insert", None, {"v": 1}, 0),
            ChangedRow("update", {"v": 1}, {"v": 2}, 2),
            ChangedRow("delete", {"v": 2}, None, 3),
        ]
        assert found[1].differing == ("v",)

    def test_halves(self) -> None:
        """A half of an update stays a change with what is known of it; a TRUNCATE has no row."""
        kinds = [(one.kind, one.before, one.after) for one in changed_rows(images("b1 i2 a3 t b4"))]
        assert kinds == [
            ("update", {"v": 1}, None),
            ("insert", None, {"v": 2}),
            ("update", None, {"v": 3}),
            ("truncate", None, None),
            ("update", {"v": 4}, None),
        ]

    def test_differing(self) -> None:
        """An inserted row shows the columns that have a value."""
        assert ChangedRow("insert", None, {"a": 1, "b": None}).differing == ("a",)


def test_years_that_python_does_not_have() -> None:
    """MySQL takes a date of year 0, which becomes a text; the others stay dates."""
    days = pa.array([-719_500, 5, None], pa.int32()).cast(pa.date32())
    batch = pa.RecordBatch.from_pydict({"d": days, OP: ["insert"] * 3})
    assert [row.after and row.after["d"] for row in changed_rows([batch])] == ["0000-01-29", date(1970, 1, 6), None]
