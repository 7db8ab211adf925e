"""What a table without a primary key lacks of its log when changes may come again, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from cdc_core.client.changes import RowsDoor
from cdc_core.errors import TableStopped
from spark_jobs.following.agreed import Agreed
from spark_jobs.following.pending import Follows
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.state import DESTINATION, TABLE, app_id
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.append import LandingTask, append
from spark_jobs.landing.log import TableLog
from spark_jobs.session import Sessions
from tests.support.lake_trial import version
from tests.support.spark_feed import Change, Feed, Table

LINES = Table("lines", pa.schema([("v", pa.string())]), ())
NAME = LINES.schema.name


@pytest.fixture
def service() -> Iterator[Feed]:
    feed = Feed()
    feed.put(LINES, [Change(at, None, ("x",)) for at in (10, 20, 30, 40)])
    yield feed
    feed.shutdown()


@pytest.fixture
def follows(tmp_path: Path) -> Follows:
    return Follows(Lake(tmp_path), "d", 1)


def land(
    follows: Follows, service: Feed, start: int, end: int, epoch: int, moved: int = 0, left: int | None = None
) -> None:
    """A claim is landed and noted. `left`: the epoch began seamlessly behind that cursor."""
    seamless = ((epoch, version(left)),) if left is not None else ()
    claim = replace(service.claim(100 * epoch + end, start, end, epoch=epoch), moved=moved, seamless=seamless)
    service.claims[claim.batch_id] = claim
    fence = Fence(follows.lake, Sessions("sc://127.0.0.1:1"))
    append(LandingTask(claim, TableLog(follows.lake, "d", 1, NAME), RowsDoor(service.url), "run", fence, lambda: 1.0))
    Ledger(follows.lake, "d", 1).note(claim, {}, "run", 1.0)


def merged(follows: Follows, epoch: int, to: int) -> None:
    """The merged table has the epoch's rows up to there."""
    path = follows.path(NAME)
    noted = CommitProperties(app_transactions=[Transaction(app_id("d", 1, NAME, epoch), version(to))])
    write_deltalake(path, pa.table({"v": ["x"]}), mode="append", commit_properties=noted)
    DeltaTable(path).alter.set_table_properties({DESTINATION: "d", TABLE: NAME}, raise_if_not_exists=False)


def next_part(follows: Follows) -> tuple[int, int | None, int, int] | None:
    """Epoch and bounds of the first part, and how many rows wait in all."""
    found = follows.pending(NAME)
    return None if found is None else (found.part.epoch, found.part.after, found.part.upto, found.rows)


@pytest.mark.parametrize("there", [None, 15, 25])
def test_what_comes_again_is_left_out_also_while_it_is_not_merged(
    follows: Follows, service: Feed, there: int | None
) -> None:
    """The rest of the first epoch comes first, and what the second one has of it never."""
    land(follows, service, 5, 35, 0)
    if there:
        merged(follows, 0, there)
    land(follows, service, 5, 25, 1)
    assert next_part(follows) == (0, version(there) if there else None, version(35), 3)
    merged(follows, 0, 35)
    assert next_part(follows) is None
    land(follows, service, 25, 45, 1)
    assert next_part(follows) == (1, version(35), version(45), 2)  # a file has rows of both
    merged(follows, 1, 45)
    assert next_part(follows) is None


def test_a_gap_makes_the_table_wait_when_it_has_the_first_epoch(follows: Follows, service: Feed) -> None:
    """The second one begins before the first did."""
    land(follows, service, 15, 35, 0)
    land(follows, service, 5, 45, 1)
    assert next_part(follows) == (0, None, version(35), 2)
    merged(follows, 0, 35)
    with pytest.raises(TableStopped, match="unknown which of the repeated rows"):
        next_part(follows)


@pytest.mark.parametrize("there", [None, 15, 25])
def test_what_another_server_sends_again_is_left_out_of_the_epoch_before(
    follows: Follows, service: Feed, there: int | None
) -> None:
    """It was landed and not acked when reading left the epoch, behind 25."""
    land(follows, service, 5, 25, 0)
    land(follows, service, 25, 45, 0)
    if there:
        merged(follows, 0, there)
    land(follows, service, 5, 45, 1, moved=1, left=25)
    if there != 25:
        part = next_part(follows)
        assert part is not None
        assert part[:3] == (0, version(there) if there else None, version(25))
        merged(follows, 0, 25)
    assert next_part(follows) == (1, None, version(45), 4)


def test_a_table_ahead_of_the_cursor_that_was_left_waits(follows: Follows, service: Feed) -> None:
    """It has changes that come again at places which do not show it; so has one that moved without GTIDs."""
    land(follows, service, 5, 45, 0)
    merged(follows, 0, 45)
    land(follows, service, 5, 45, 1, moved=1, left=25)
    with pytest.raises(TableStopped, match="moved to another server"):
        next_part(follows)


def test_a_part_is_what_was_noted_first(follows: Follows, service: Feed) -> None:
    """However far the log is since; until the table has it."""
    agreed = Agreed(follows.lake, "d", 1)

    def taken() -> tuple[int | None, int]:
        found = agreed.part(NAME, follows.pending)
        assert found is not None
        return found.part.after, found.part.upto

    land(follows, service, 5, 25, 0)
    assert taken() == (None, version(25))
    land(follows, service, 25, 35, 0)
    assert taken() == (None, version(25))
    small = replace(follows, part_rows=1)
    found = agreed.part(NAME, small.pending)
    assert found is not None
    assert found.part.upto == version(25)
    merged(follows, 0, 25)
    assert taken() == (version(25), version(35))
    merged(follows, 0, 35)
    assert agreed.part(NAME, follows.pending) is None


def test_two_that_note_at_once_take_the_same(follows: Follows, service: Feed) -> None:
    """The second one finds its note refused, and looks again."""
    agreed, looks = Agreed(follows.lake, "d", 1), list[int]()
    land(follows, service, 5, 25, 0)

    def pending(table: str) -> object:
        found = follows.pending(table)
        if not looks:
            looks.append(1)
            other = agreed.part(NAME, follows.pending)
            assert other is not None
            assert other.part.upto == version(25)
            land(follows, service, 25, 45, 0)
        else:
            looks.append(2)
        return found

    found = agreed.part(NAME, pending)  # type: ignore[arg-type]
    assert looks == [1, 2]
    assert found is not None
    assert found.part.upto == version(25)
