"""Which tables stop when a destination starts with another filter, on a real server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cdc_core.contract.stopped_table import FILTERED_OUT, StoppedTable
from cdc_core.destination.capture import Capture
from cdc_core.destination.refilter import captured_by
from cdc_core.errors import CursorError
from cdc_core.meta.cursors import Cursors
from cdc_core.meta.filter_notes import FilterChange, FilterNote, FilterText
from cdc_core.meta.nodes import Change, MemoryNodes, Node
from cdc_core.position import EntryPosition, LogPosition
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, all_read, claim, config, drain, execute, running, until

NOTE = f"/otter/canal/destinations/shop/{CLIENT}/captured"


@pytest.fixture
def shop(mysql8: MySqlServer) -> Iterator[str]:
    """A database with the tables a, b and c."""
    with mysql8.database() as name:
        execute(mysql8, name, *(f"CREATE TABLE {table} (id INT PRIMARY KEY)" for table in "abc"))
        yield name


class Source:
    """A destination of the database that is started with one filter after another, and reads all that there is."""

    def __init__(self, mysql: MySqlServer, shop: str, nodes: Any = None) -> None:
        self.mysql, self.shop, self.nodes = mysql, shop, nodes or MemoryNodes()

    def start(self, regex: str, black: str = "", **keys: Any) -> dict[str, StoppedTable]:
        """The client's stops after a start with this filter, by table."""
        with self.running(regex, black, **keys) as capture:
            all_read(capture, self.mysql)
            return stops(capture)

    def running(self, regex: str, black: str = "", **keys: Any) -> Any:
        named = rf"{self.shop}\.({regex})"
        return running(config(self.mysql, self.shop, filter_regex=named, filter_black_regex=black, **keys), self.nodes)

    def sql(self, *statements: str) -> None:
        for statement in statements:
            execute(self.mysql, self.shop, statement)


@pytest.fixture
def source(mysql8: MySqlServer, shop: str) -> Source:
    return Source(mysql8, shop)


def stops(capture: Capture) -> dict[str, StoppedTable]:
    found = capture.service.client(CLIENT).stopped
    return {one.table.partition(".")[2]: one for one in found}


@pytest.mark.integration
def test_a_table_that_comes_back_stops(source: Source) -> None:
    """Until a copy at the cursor of the start, or after it. A table that was never captured does not, nor one that is
    captured all the time, nor one that is gone."""
    assert source.start("a|b") == {}
    assert source.start("a") == {}
    source.sql("INSERT INTO b VALUES (1)", "DROP TABLE b", "CREATE TABLE b (id INT PRIMARY KEY)")
    with source.running("a|b|c") as capture:
        until(lambda: stops(capture), capture)
        found = stops(capture)
        cursor = capture.service.client(CLIENT).cursor
        assert [*found] == ["b"]
        assert (found["b"].reason, found["b"].copy_needed, found["b"].passed) == (FILTERED_OUT, True, cursor)
        assert f"sluice snapshot shop {source.shop}.b" in found["b"].hint
        source.sql("INSERT INTO b VALUES (2)")
        assert claim(capture).stopped == (f"{source.shop}.b",)
    source.sql("DROP TABLE c")
    assert [*source.start("a")] == ["b"]
    assert [*source.start("a|b|c")] == ["b"]


@pytest.mark.integration
def test_the_expressions_that_leave_tables_out_count(source: Source) -> None:
    """A black expression that comes and goes is a table that leaves and comes back."""
    assert source.start(".*", "mysql\\..*") == {}
    assert source.start(".*", r".*\.b") == {}
    assert [*source.start(".*", "mysql\\..*")] == ["b"]


@pytest.mark.integration
def test_a_cursor_without_a_note_is_compared_by_its_filter_node(source: Source) -> None:
    """It was written by an older version, or by Canal: any table may have been captured once."""
    assert source.start("a") == {}
    note = source.nodes.read(NOTE)
    source.nodes.write({NOTE: Change(None, note.version)})
    assert [*source.start("a|b|c")] == ["b", "c"]


@pytest.mark.integration
def test_a_client_of_entries_keeps_nothing(source: Source) -> None:
    """So no table of it can miss changes, and none stops."""
    assert source.start("a|b") == {}
    Cursors(source.nodes, "shop").set_reads_entries(CLIENT, reads=True)
    assert source.start("a") == {}
    assert source.start("a|b") == {}


@pytest.mark.integration
def test_a_filter_that_another_client_brings_along_counts(source: Source) -> None:
    """With `override` it is the destination's, for all clients."""
    cursors, keys = Cursors(source.nodes, "shop"), {"clients": [1002, CLIENT], "client_filter": "override"}
    found = []
    for tables in "b", "c", "b":
        cursors.set_filter(1002, rf"{source.shop}\.{tables}")
        own = captured_by(config(source.mysql, source.shop, **keys), cursors)
        with running(own, source.nodes) as capture:
            all_read(capture, source.mysql)
            found.append([*stops(capture)])
    assert found == [[], [], ["b"]]


@pytest.mark.integration
def test_a_table_that_was_renamed_since_the_cursor_stops_by_both_names(source: Source) -> None:
    """The catalogue has the new name alone; the schema history has the one at the cursor. What follows the statement
    sees that the rows are wrong."""
    with source.running("a|b") as capture:
        source.sql("INSERT INTO b VALUES (1)")
        drain(capture, 1)
    assert source.start("a|d") == {}
    source.sql("RENAME TABLE b TO e")
    assert [*source.start("a|b|e")] == ["b"]


@pytest.mark.integration
def test_a_stop_of_before_keeps_its_reason(source: Source) -> None:
    """So a table that a person paused stays paused; and it needs a copy now."""
    with source.running("a|b") as capture:
        source.sql("INSERT INTO a VALUES (1)")
        drain(capture, 1)
        place = capture.service.client(CLIENT).cursor
        capture.service.stop_table(CLIENT, StoppedTable(f"{source.shop}.b", "paused: x", "Resume it.", place))
    assert source.start("a")["b"].passed is None
    source.sql("INSERT INTO b VALUES (1)")
    found = source.start("a|b")["b"]
    assert (found.reason, found.position, found.copy_needed) == ("paused: x", place, True)
    assert found.passed is not None
    assert found.passed >= place


@pytest.mark.integration
def test_snapshots_of_tables_that_left_or_came_are_broken(source: Source) -> None:
    """The stream did not have all changes of theirs while they were read."""
    with source.running("a|b") as capture:
        for table in "ab":
            capture.service.open_snapshot(CLIENT, f"{source.shop}.{table}", "job", 300.0, first=False)
    for regex in ("a", "a|b"):
        with source.running(regex) as capture:
            opened = {one.table.partition(".")[2]: one for one in capture.service.client(CLIENT).snapshots}
            assert "left its table out" in opened["b"].broken
            assert opened["a"].broken == ""


class Refusing(MemoryNodes):
    """Refuses the write that notes another filter, so many times."""

    left = 0

    def write(self, changes: Mapping[str, Change]) -> None:
        if NOTE in changes and self.left:
            self.left -= 1
            raise CursorError("refused", place=NOTE, hint="")
        super().write(changes)


@pytest.mark.integration
def test_note_and_stops_are_one_write(mysql8: MySqlServer, shop: str) -> None:
    """Where it is refused, nothing has changed, and the next start does it."""
    source = Source(mysql8, shop, nodes := Refusing())
    assert source.start("a|b") == {}
    assert source.start("a") == {}
    before, nodes.left = nodes.read(NOTE), 2
    named = config(mysql8, shop, filter_regex=rf"{shop}\.(a|b)")
    with running(named, nodes, wait=False) as capture:
        until(lambda: capture.status().error, capture)
        if nodes.left:
            assert nodes.read(NOTE) == before
            assert Cursors(nodes, "shop").stopped.of(CLIENT) == []
        until(lambda: capture.status().state == "running", capture)
        assert [*stops(capture)] == ["b"]


def test_earlier_filters_that_are_too_many_are_any() -> None:
    """The node stays small; a table that comes in may then have been captured once."""
    note = FilterNote(FilterText("0", ""))
    for number in range(1, 20):
        note = note.after(FilterText(str(number), ""))
    assert [one.regex for one in note.before] == [str(number) for number in range(19)]
    assert FilterNote.from_bytes(note.to_bytes()) == note
    note = note.after(FilterText("20", "")).after(FilterText("0", ""))
    assert (note.before, note.any_before) == ((), True)
    assert note.after(FilterText("1", "")).any_before
    long = FilterNote(FilterText("shop.t," * 9000, "")).after(FilterText("a", ""))
    assert not long.any_before
    assert FilterNote.from_bytes(long.to_bytes()) == long
    assert len(long.to_bytes()) < 2000
    assert long.after(FilterText("shop.t," * 900, "")).after(FilterText("a", "")).any_before


def test_a_note_that_is_none_is_an_error() -> None:
    """Nothing is guessed and nothing overwritten."""
    nodes = MemoryNodes()
    for value in (b"{}", b"x", b'{"now": ["a"], "before": [], "any_before": false}'):
        node: Node | None = nodes.read(NOTE)
        nodes.write({NOTE: Change(value, node.version if node else None)})
        with pytest.raises(CursorError, match="not a note of filters"):
            Cursors(nodes, "shop").filters.of(CLIENT)


def test_five_thousand_stops_are_in_one_write_with_the_note() -> None:
    """And the client is subscribed by that write."""
    nodes, place = MemoryNodes(), EntryPosition("bin.000001", 100)
    cursors = Cursors(nodes, "shop")
    many = tuple(
        StoppedTable(f"shop.t{n}", FILTERED_OUT, "h" * 100, place, place, copy_needed=True) for n in range(5000)
    )
    change = FilterChange(FilterNote(FilterText("a", "b")), many)
    cursors.begin(CLIENT, LogPosition("h", 1, place), "uuid", "a", change)
    assert len(cursors.stopped.of(CLIENT)) == 5000
    assert cursors.filters.of(CLIENT) == change.note
    assert cursors.clients() == [CLIENT]
