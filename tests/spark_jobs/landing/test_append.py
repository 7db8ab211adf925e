"""A table's share of a claim in its change log, without Spark: each image once, whatever comes again or too late."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from cdc_core.client.changes import FlightRows, RowsDoor
from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError, RangeGone, TableStopped
from cdc_core.position import EntryPosition
from spark_jobs.changes.columns import EPOCH, NTH, OP, SYSTEM, TRUNCATE, VERSION
from spark_jobs.changes.log_images import Emptied
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.state import DESTINATION, LOG, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.landing import append as module
from spark_jobs.landing.append import Landed, LandingTask, append
from spark_jobs.landing.log import TableLog
from spark_jobs.session import Sessions
from tests.support.lake_trial import version
from tests.support.spark_feed import JOURNAL, Change, Feed, Table

ORDERS = Table("orders", pa.schema([("id", pa.int32()), ("v", pa.string())]), ("id",))
NAME = ORDERS.schema.name


@pytest.fixture
def service() -> Iterator[Feed]:
    feed = Feed()
    feed.put(ORDERS, [Change(at, None, (at, "x")) for at in (10, 20, 30, 40)])
    feed.put(ORDERS, [Change(50, (10, "x"), (10, "y")), Change(60, (20, "x"), None)])
    yield feed
    feed.shutdown()


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.integration)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """On a disk, and in an object store."""
    if request.param == "disk":
        return Lake(tmp_path)
    return Lake(f"{request.getfixturevalue('object_store')}/{tmp_path.name}")


def run_of(lake: Lake) -> Fence:
    """The fence of a run. No log needs Spark for it."""
    return Fence(lake, Sessions("sc://127.0.0.1:1"))


def share(lake: Lake, service: Feed, claim: Claim, fence: Fence | None = None, **more: Any) -> LandingTask:
    log = TableLog(lake, "d", 1, NAME)
    return LandingTask(claim, log, RowsDoor(service.url), "run", fence or run_of(lake), lambda: 1.0, **more)


def rows(lake: Lake) -> list[tuple[int, int, str, int | None, str | None]]:
    """Epoch, version, op and values, in the order of the changes."""
    found = pa.table(lake.open(lake.log_path("shop", "orders")).to_pyarrow_table())
    found = found.sort_by([(EPOCH, "ascending"), (VERSION, "ascending"), (NTH, "ascending")])
    return list(zip(*(found[name].to_pylist() for name in (EPOCH, VERSION, OP, "id", "v")), strict=True))


ALL = [(1, version(at), "insert", at, "x") for at in (10, 20, 30, 40)] + [
    (1, version(50), "update_before", 10, "x"),
    (1, version(50), "update_after", 10, "y"),
    (1, version(60), "delete", 20, "x"),
]


def test_each_image_is_a_row_with_its_place(service: Feed, lake: Lake) -> None:
    """The log is made with the first rows; its columns are the table's and Sluice's, and it says whose it is."""
    landed = append(share(lake, service, service.claim(3, 5, 70)))
    assert (landed.created, landed.images, landed.end, landed.replayed) == (True, 7, version(70), False)
    assert landed.counts.raw == 6
    assert rows(lake) == ALL
    log = TableLog(lake, "d", 1, NAME).open()
    assert log is not None
    log.check_owner()
    assert (log.end(1), log.end(0), log.primary_key) == (version(70), None, ("id",))
    assert [(one.name, one.type) for one in log.columns] == [("id", "int"), ("v", "string")]
    found = pa.table(log.table.to_pyarrow_table())
    assert found.schema.names == ["id", "v", *SYSTEM.names]
    assert set(found["_sluice_batch"].to_pylist()) == {3}
    assert found["_sluice_time"].null_count == found["_sluice_position"].null_count == 0
    assert lake.tables("shop", "d") == []
    assert lake.live_tables("d") == []


def test_claims_with_other_boundaries_add_what_is_new(service: Feed, lake: Lake) -> None:
    """Whatever the runs and the boundaries, each image is there once; what the log has already is a replay."""
    done: list[Landed] = []
    for number, (start, end) in enumerate(((5, 25), (5, 25), (5, 45), (25, 35), (45, 70), (5, 70))):
        done.append(append(share(lake, service, service.claim(number, start, end))))
    assert rows(lake) == ALL
    assert [(one.images, one.replayed) for one in done] == [
        (2, False), (0, True), (2, False), (0, True), (3, False), (0, True)
    ]  # fmt: skip
    assert {one.end for one in done[2:4]} == {version(45)}


def test_rows_that_come_again_after_a_rewind_are_of_another_epoch(service: Feed, lake: Lake) -> None:
    """The log has an end for each epoch."""
    append(share(lake, service, service.claim(1, 5, 70)))
    append(share(lake, service, service.claim(2, 25, 45, epoch=2)))
    assert rows(lake) == ALL + [(2, version(at), "insert", at, "x") for at in (30, 40)]
    log = TableLog(lake, "d", 1, NAME).open()
    assert log is not None
    assert log.ends(2) == {1: version(70), 2: version(45)}


def test_a_claim_without_rows_of_the_table_makes_no_commit(service: Feed, lake: Lake) -> None:
    """The log's end stays where its last rows were."""
    append(share(lake, service, service.claim(1, 5, 70)))
    landed = append(share(lake, service, service.claim(2, 70, 90)))
    assert (landed.images, landed.end, landed.replayed) == (0, version(70), False)


def test_a_late_run_is_refused(service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that opened the log before the next run's fence cannot commit; one that comes later finds the other's token.
    What the next run wrote is there once."""
    early, late = run_of(lake), run_of(lake)
    append(share(lake, service, service.claim(1, 5, 15), early))
    real = module.write_deltalake

    def overtaken(*args: Any, **named: Any) -> None:
        monkeypatch.undo()
        append(share(lake, service, service.claim(3, 15, 45), late))
        real(*args, **named)

    monkeypatch.setattr(module, "write_deltalake", overtaken)
    with pytest.raises(LakeError, match="taken the change log over"):
        append(share(lake, service, service.claim(2, 15, 35), early))
    with pytest.raises(LakeError, match="taken the change log over"):
        append(share(lake, service, service.claim(4, 45, 70), early))
    assert rows(lake) == ALL[:4]


def test_a_run_that_made_no_commit_is_fenced_too(service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs that fence the log one after the other and both then write, the first is refused."""
    append(share(lake, service, service.claim(1, 5, 15)))
    early, real = run_of(lake), module.write_deltalake

    def fenced(*args: Any, **named: Any) -> None:
        monkeypatch.undo()
        module.enter(share(lake, service, service.claim(3, 15, 45)))
        real(*args, **named)

    monkeypatch.setattr(module, "write_deltalake", fenced)
    with pytest.raises(LakeError, match="taken the change log over"):
        append(share(lake, service, service.claim(2, 15, 35), early))
    assert rows(lake) == ALL[:1]


def test_an_append_whose_answer_was_lost_is_found(service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is there and its writer got an error: the claim comes again, and adds nothing."""
    real = module.write_deltalake

    def lost(*args: Any, **named: Any) -> None:
        real(*args, **named)
        raise OSError("connection reset")

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_deltalake", lost)
        with pytest.raises(LakeError, match="connection reset"):
            append(share(lake, service, service.claim(1, 5, 45)))
    assert append(share(lake, service, service.claim(2, 5, 45))).replayed
    append(share(lake, service, service.claim(3, 25, 70)))
    assert rows(lake) == ALL


def test_a_commit_after_the_append_is_not_taken_for_it(
    service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer's commit comes before the append's rows are counted."""
    append(share(lake, service, service.claim(3, 5, 20)))
    path, write = lake.log_path("shop", "orders"), module.write_deltalake

    def write_before_another(*given: Any, **named: Any) -> None:
        write(*given, **named)
        write(path, pa.table(lake.open(path).to_pyarrow_table()).slice(0, 1), mode="append")

    monkeypatch.setattr(module, "write_deltalake", write_before_another)
    assert append(share(lake, service, service.claim(4, 20, 70))).images == 5


def test_fewer_images_than_the_service_counted_are_not_committed(
    service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch fails before its commit."""
    claim = service.claim(1, 5, 70)
    real = FlightRows.info
    monkeypatch.setattr(FlightRows, "info", lambda *args, **named: replace(real(*args, **named), rows=8))
    with pytest.raises(LakeError, match="7 images came, but the service counted 8"):
        append(share(lake, service, claim))
    monkeypatch.undo()
    log = TableLog(lake, "d", 1, NAME).open()
    assert log is not None
    assert log.end(1) is None


def test_the_services_own_errors_stay(service: Feed, lake: Lake) -> None:
    """A claim that is gone is reported as such, and no log is made."""
    claim = service.claim(1, 5, 15)
    del service.claims[1]
    with pytest.raises(RangeGone):
        append(share(lake, service, claim))
    assert TableLog(lake, "d", 1, NAME).open() is None


def columns_of(service: Feed, *fields: tuple[str, pa.DataType]) -> None:
    """The source's table has these columns from now on, and no rows of before."""
    service.tables[NAME] = Table("orders", pa.schema(fields), ("id",))
    service.changes[NAME] = []


def test_columns_come_and_go(service: Feed, lake: Lake) -> None:
    """A new column is added; one that the source dropped stays, and is NULL from then on; both with one claim."""
    append(share(lake, service, service.claim(1, 5, 15)))
    fence = run_of(lake)
    columns_of(service, ("id", pa.int32()), ("at", pa.timestamp("us")), ("v", pa.string()))
    service.put(service.tables[NAME], [Change(80, None, (8, None, "z"))])
    assert append(share(lake, service, service.claim(2, 70, 90), fence)).added_columns == ("at",)
    columns_of(service, ("id", pa.int32()), ("w", pa.string()))
    service.put(service.tables[NAME], [Change(100, None, (9, "w"))])
    assert append(share(lake, service, service.claim(3, 90, 110), fence)).added_columns == ("w",)
    found = pa.table(lake.open(lake.log_path("shop", "orders")).to_pyarrow_table()).sort_by(VERSION)
    assert [found[name].to_pylist() for name in ("id", "v", "w")] == [[10, 8, 9], ["x", "z", None], [None, None, "w"]]


def test_a_log_with_datetimes_gets_no_further_feature(service: Feed, tmp_path: Path) -> None:
    """What its properties say of its rows changes with their definition, and with an epoch."""
    lake = Lake(tmp_path)
    columns_of(service, ("id", pa.int32()), ("at", pa.timestamp("us")))
    service.put(service.tables[NAME], [Change(80, None, (8, None))])
    append(share(lake, service, service.claim(1, 70, 90)))
    columns_of(service, ("id", pa.int32()), ("at", pa.timestamp("us")), ("w", pa.string()))
    service.put(service.tables[NAME], [Change(100, None, (9, None, "w"))])
    append(share(lake, service, service.claim(2, 90, 110)))
    append(share(lake, service, service.claim(3, 70, 110, epoch=2)))
    table = lake.open(lake.log_path("shop", "orders"))
    assert (table.to_pyarrow_table().num_rows, table.protocol().reader_features) == (3, ["timestampNtz"])


@pytest.mark.parametrize("field", [("v", pa.int64()), ("V", pa.string())])
def test_a_column_that_the_log_cannot_hold_begins_it_again(
    service: Feed, lake: Lake, field: tuple[str, pa.DataType]
) -> None:
    """Of another type, or named otherwise in case alone. Everything is merged before, its end stays, and that is
    said."""
    append(share(lake, service, service.claim(1, 5, 15)))
    columns_of(service, ("id", pa.int32()), field)
    value = 1 if field[0] == "v" else "1"
    service.put(service.tables[NAME], [Change(80, None, (8, value))])
    merged = list[int]()
    landed = append(
        share(lake, service, service.claim(2, 70, 90), merge_all=lambda: merged.append(1), fence=run_of(lake))
    )
    assert merged == [1]
    assert "now; its earlier rows are in its version" in landed.begun_anew
    found = pa.table(lake.open(lake.log_path("shop", "orders")).to_pyarrow_table())
    assert (found["id"].to_pylist(), found[field[0]].to_pylist()) == ([8], [value])
    assert append(share(lake, service, service.claim(3, 5, 90))).replayed


def test_a_log_is_not_begun_again_before_it_is_merged(service: Feed, lake: Lake) -> None:
    """The table stops with the reason, and the log keeps its rows."""
    append(share(lake, service, service.claim(1, 5, 15)))
    columns_of(service, ("id", pa.int32()), ("v", pa.int64()))
    service.put(service.tables[NAME], [Change(80, None, (8, 1))])

    def refuses() -> None:
        raise TableStopped("it cannot be merged", hint="Copy it.")

    with pytest.raises(TableStopped, match="cannot be merged"):
        append(share(lake, service, service.claim(2, 70, 90), merge_all=refuses))
    assert rows(lake) == ALL[:1]


def test_statements_that_empty_the_table_are_rows(service: Feed, lake: Lake) -> None:
    """Before the claim's rows, or alone; once."""
    append(share(lake, service, service.claim(1, 5, 15)))
    emptied = [Emptied(EntryPosition(JOURNAL, 18, timestamp=5_000))]
    for _ in range(2):
        append(share(lake, service, service.claim(2, 15, 25), emptied=emptied))
    alone = [Emptied(EntryPosition(JOURNAL, 28))]
    for _ in range(2):
        append(share(lake, service, service.claim(3, 25, 28), emptied=alone, has_rows=False))
    found = [(at, op, key) for _, at, op, key, _ in rows(lake)]
    assert found == [
        (version(10), "insert", 10), (version(18), TRUNCATE, None), (version(20), "insert", 20),
        (version(28), TRUNCATE, None),
    ]  # fmt: skip


def test_another_table_in_the_place_of_the_log_stops_it(service: Feed, lake: Lake) -> None:
    """Such as the merged one of a source table `orders__log`, or somebody's own. Nothing is written to it."""
    path = lake.log_path("shop", "orders")
    there = DeltaTable.create(
        path, pa.schema([("id", pa.int32())]), configuration={DESTINATION: "d", TABLE: "shop.orders__log"},
        raise_if_key_not_exists=False,
    )  # fmt: skip
    with pytest.raises(TableStopped, match=r"table 'shop.orders__log' of destination 'd'") as stopped:
        append(share(lake, service, service.claim(1, 5, 15)))
    assert "apply: merge" in stopped.value.hint
    assert lake.open(path).version() == there.version() == 0
    assert lake.tables("shop", "d") == ["shop.orders__log"]
    assert LOG not in lake.open(path).metadata().configuration


def test_a_damaged_log_stops_its_table(service: Feed, lake: Lake) -> None:
    """With the remedy; the batch of the others goes on."""
    append(share(lake, service, service.claim(1, 5, 15)))
    files: Any = PyFileSystem(DeltaStorageHandler(lake.log_path("shop", "orders"), None))
    with files.open_output_stream("_delta_log/00000000000000000000.json") as log:
        pq.write_table(pa.table({"no": ["json"]}), log)
    with pytest.raises(TableStopped, match="damaged") as stopped:
        append(share(lake, service, service.claim(2, 15, 25)))
    assert "sluice copy d shop.orders" in stopped.value.hint


def test_many_commits_become_few_files(service: Feed, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """No row is lost or doubled by that, and no end."""
    monkeypatch.setattr(module, "_COMPACT_EVERY", 4)
    fence = run_of(lake)
    for number, at in enumerate(range(10, 70, 10)):
        append(share(lake, service, service.claim(number, at - 5, at + 5), fence))
    assert rows(lake) == ALL
    log = TableLog(lake, "d", 1, NAME).open()
    assert log is not None
    assert log.end(1) == version(65)
    assert len(log.table.file_uris()) < 6
