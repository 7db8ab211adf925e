"""The last image of each key of a part, as Arrow finds it and as Spark does."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.changes import in_order as reading
from spark_jobs.changes.columns import DELETE, EPOCH, INSERT, NTH, OP, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE, VERSION
from spark_jobs.changes.net import ImageQuery
from spark_jobs.following.pending import Part
from spark_jobs.lake.sql import table_at
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.session import Sessions
from spark_jobs.write import net_file
from spark_jobs.write import sorted_images as module
from spark_jobs.write.sorted_images import SortedImages, last_images
from tests.support.change_images import COLUMNS, KEY, SCHEMA, image, part_of

OPS = (INSERT, UPDATE_AFTER, UPDATE_BEFORE, DELETE)


def drawn(rng: random.Random, size: int) -> list[dict[str, Any]]:
    """Images of few keys in any order, of other epochs and versions too."""
    found = [
        image(rng.randrange(6), rng.choice("xyä"), rng.choice(OPS), rng.randrange(100), nth, rng.choice((0, 0, 0, 1)))
        for nth in range(size)
    ]
    return [*found, image(1, "x", INSERT, 50, 1000)]


def expected(images: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """The same, an image at a time."""
    last = dict[Any, dict[str, Any]]()
    for one in sorted(images, key=lambda one: (one[VERSION], one[NTH])):
        if one[EPOCH] == 0 and 10 < one[VERSION] <= 90:
            last[one["a"], one["b"]] = one
    return {(*(one[name] for name in COLUMNS), 1 if one[OP] in OPS[:2] else 2) for one in last.values()}


def rows_of(found: SortedImages) -> list[tuple[Any, ...]]:
    table = found.sent if found.sent is not None else pq.read_table(found.file)
    return [tuple(row.values()) for row in table.to_pylist()]


def of(lake: Lake, log: DeltaTable, part: Part) -> AbstractContextManager[SortedImages | None]:
    return last_images(lake, "shop", log, part, COLUMNS, KEY)


@pytest.mark.parametrize("sent", [0, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_each_key_has_its_last_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, sent: int) -> None:
    """Sent along, or in a file that is written in slices and is gone afterwards."""
    monkeypatch.setattr(module, "_SENT_ROWS", sent)
    monkeypatch.setattr(module, "_SLICE", 3)
    rng = random.Random(seed)
    images = drawn(rng, rng.choice((1, 40, 300)))
    rng.shuffle(images)
    lake, log, part = part_of(tmp_path, images)
    with of(lake, log, part) as found:
        assert found is not None
        assert (found.sent is None) == (not sent)
        rows = rows_of(found)
        assert (set(rows), len(rows)) == (expected(images), found.rows)
    assert [path for path in Path(lake.root).rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("images", "limits"),
    [
        pytest.param([image(1, "x", TRUNCATE, 30, 2)], {}, id="an entry that is no row"),
        pytest.param([image(None, "x", DELETE, 30, 2)], {}, id="no key"),
        pytest.param([image(1, "x", INSERT, 5, 1)], {}, id="no rows"),
        pytest.param([image(1, "x", INSERT, 20, 1)], {"MOST_BYTES": 10}, id="too many bytes"),
    ],
)
def test_what_spark_should_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: list[dict[str, Any]], limits: dict[str, int]
) -> None:
    """It says what is wrong with a row, and it holds more than a run."""
    for name, value in limits.items():
        monkeypatch.setattr(reading, name, value)
    with of(*part_of(tmp_path, images)) as found:
        assert found is None


def test_a_disk_without_room_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are sent along all the same; of many Spark reads the log."""

    def full(_: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(net_file, "make_room", full)
    made = part_of(tmp_path, [image(1, "x", INSERT, 20, 1)])
    with of(*made) as found:
        assert found is not None
    monkeypatch.setattr(module, "_SENT_ROWS", 0)
    with of(*made) as found:
        assert found is None


KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "a": (pa.int64(), [-1, 0, 1]),
    "b": (pa.string(), ["x", "x ", "X", "ä", ""]),
    "d": (pa.decimal128(20, 0), [Decimal(18446744073709551615), Decimal(0), None]),
    "f": (pa.float64(), [0.0, -0.0, 1.5e300, None]),
    "y": (pa.binary(), [b"", b"\x00", b"\xff\x00", None]),
    "t": (pa.timestamp("us"), [-62135596800000000, 0, 253402300799999999, None]),
    "z": (pa.timestamp("us", "UTC"), [0, 1700000000123456, None]),
    "q": (pa.date32(), [-719162, 0, 2932896, None]),
    "i": (pa.int8(), [-128, 127, None]),
    "o": (pa.bool_(), [True, False, None]),
}


@pytest.mark.integration
@pytest.mark.parametrize("sent", [0, 1000])
def test_spark_says_the_same(spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: int) -> None:
    """Values of every kind come to a MERGE as a query over the log gives them, also the extreme ones."""
    monkeypatch.setattr(module, "_SENT_ROWS", sent)
    rng, names = random.Random(7), list(KINDS)
    schema = pa.schema([*((name, kind) for name, (kind, _) in KINDS.items()), *list(SCHEMA)[3:]])
    images = [
        {name: rng.choice(values) for name, (_, values) in KINDS.items()}
        | {name: one[name] for name in SCHEMA.names[3:]}
        for one in drawn(rng, 200)
    ]
    path = str(tmp_path / "log")
    write_deltalake(path, pa.Table.from_pylist(images, schema), mode="append")
    log, part = DeltaTable(path), Part(0, 10, 90, len(images), 0.0)
    columns = tuple(LakeColumn(name, "") for name in names)
    read = ImageQuery(table_at(path, log.version()), columns, KEY, part.sql).net()
    images_of = last_images(Lake(tmp_path / "lake"), "shop", log, part, names, KEY)
    with Sessions(spark_remote) as sessions, sessions.take() as spark, images_of as found:
        assert found is not None
        found.create_view(spark, "made")
        ours, theirs = spark.sql("SELECT * FROM made"), spark.sql(f"SELECT * FROM {read}")
        types = [(field.name, field.dataType) for field in ours.schema][:-1]
        assert types == [(field.name, field.dataType) for field in theirs.schema][:-1]
        assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
        assert ours.count() == found.rows > 10
