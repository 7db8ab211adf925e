"""What a large part of a log does to its history, as Arrow finds it; without Spark."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.changes import in_order as reading
from spark_jobs.changes import versions
from spark_jobs.changes.columns import DELETE, EPOCH, INSERT, NTH, OP, TIME, TRUNCATE, UPDATE_AFTER, VERSION
from spark_jobs.changes.versions import CURRENT, KIND, VALID_FROM, VALID_TO
from spark_jobs.write import net_file
from spark_jobs.write import sorted_images as module
from spark_jobs.write.sorted_images import row_versions
from tests.support.change_images import COLUMNS, KEY, image, part_of


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_ROWS", 1)


def expected(images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, an image at a time."""
    by_key = defaultdict(list)
    for one in sorted(images, key=lambda one: (one[VERSION], one[NTH])):
        if one[EPOCH] == 0 and 10 < one[VERSION] <= 90:
            by_key[one["a"], one["b"]].append(one)
    found = []
    for of_key in by_key.values():
        for number, one in enumerate(of_key):
            row = {name: one[name] for name in (*COLUMNS, OP, EPOCH, VERSION, NTH)}
            later = of_key[number + 1][TIME] if number + 1 < len(of_key) else None
            if number == 0:
                found.append(row | {KIND: 0, VALID_FROM: None, VALID_TO: one[TIME], CURRENT: False})
            if one[OP] in (INSERT, UPDATE_AFTER):
                found.append(row | {KIND: 1, VALID_FROM: one[TIME], VALID_TO: later, CURRENT: later is None})
    return found


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row[VERSION], row[NTH], row[KIND]))


def read(file: str) -> list[dict[str, Any]]:
    table = pq.read_table(file)
    for name in (VALID_FROM, VALID_TO):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table[name].cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(5))
def test_every_image_closes_or_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Images of few keys in any order, of other epochs and versions too, in slices that cut a key."""
    monkeypatch.setattr(versions, "_SLICE", 7)
    rng, ops = random.Random(seed), (INSERT, UPDATE_AFTER, "update_before", DELETE)
    images = [
        image(rng.randrange(6), rng.choice("xyä"), rng.choice(ops), rng.randrange(100), nth, rng.choice((0, 0, 0, 1)))
        for nth in range(rng.choice((1, 40, 300)))
    ]
    images.append(image(1, "x", INSERT, 50, 1000))
    rng.shuffle(images)
    lake, log, part = part_of(tmp_path, images)

    with row_versions(lake, "shop", log, part, part.rows, COLUMNS, KEY) as found:
        assert found is not None
        assert in_order(read(found.file)) == in_order(expected(images))
        assert found.schema.names[:3] == COLUMNS
    assert [path for path in Path(lake.root).rglob("*") if path.is_file()] == []


def odd() -> Iterator[Any]:
    good = image(1, "x", INSERT, 20, 1)
    yield pytest.param([good, image(1, "x", TRUNCATE, 30, 2)], {}, id="an entry that is no row")
    yield pytest.param([good, image(None, "x", DELETE, 30, 2)], {}, id="no key")
    yield pytest.param([image(1, "x", INSERT, 5, 1)], {}, id="no rows")
    yield pytest.param([good], {"MOST_BYTES": 10}, id="too many bytes")
    yield pytest.param([good], {"LEAST_ROWS": 2}, id="few rows")


@pytest.mark.parametrize(("images", "limits"), list(odd()))
def test_what_spark_should_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: list[dict[str, Any]], limits: dict[str, int]
) -> None:
    """It says what is wrong with a row, and it holds more than a run."""
    for name, value in limits.items():
        monkeypatch.setattr(reading if hasattr(reading, name) else module, name, value)
    lake, log, part = part_of(tmp_path, images)
    with row_versions(lake, "shop", log, part, part.rows, COLUMNS, KEY) as found:
        assert found is None


def test_a_disk_without_room_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark reads the log then, and nothing is left."""

    def full(_: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(net_file, "make_room", full)
    lake, log, part = part_of(tmp_path, [image(1, "x", INSERT, 20, 1)])
    with row_versions(lake, "shop", log, part, part.rows, COLUMNS, KEY) as found:
        assert found is None
