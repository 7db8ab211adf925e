"""GTID sets against sets of single transactions, and against what servers write."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from cdc_core.errors import PositionError
from cdc_core.gtid import Gtid, GtidPosition, GtidSet, parse_gtid_field, parse_gtids, was_executed
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import capture

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "00000000-1111-2222-3333-444444444444"
One = tuple[str, str, int]
ONES = st.tuples(st.sampled_from([A, B]), st.sampled_from(["", "tag", "x_1"]), st.integers(1, 12))


def gtid_set(ones: set[One]) -> GtidSet:
    return GtidSet.parse(",".join(":".join(filter(None, [server, tag, str(n)])) for server, tag, n in ones))


def ones_of(found: GtidSet) -> set[One]:
    return {(s, t, n) for (s, t), pairs in found.parts for low, high in pairs for n in range(low, high)}


@settings(max_examples=200)
@given(st.sets(ONES), st.sets(ONES))
def test_sets_are_sets(one: set[One], two: set[One]) -> None:
    """Union, subtraction, containment and size; both forms can be read back."""
    a, b = gtid_set(one), gtid_set(two)

    assert ones_of(a | b) == one | two
    assert ones_of(a - b) == one - two
    assert (a >= b) == (one >= two)
    assert len(a) == len(one)
    assert GtidSet.parse(str(a)) == a == GtidSet.decode(a.encode())


def test_a_set_reads_as_servers_write_it() -> None:
    """Line breaks, spaces, upper case and overlaps; tagged GTIDs after untagged ones."""
    text = f"{A.upper()}:1-5:4-9:11 : TAG:1-3,\n{B}:7"

    assert str(GtidSet.parse(text)) == f"{B}:7,{A}:1-9:11:tag:1-3"
    assert GtidSet.parse(text) >= GtidSet.parse(f"{A}:tag:2")
    assert not GtidSet.parse(text) >= GtidSet.parse(f"{A}:10")
    assert str(GtidSet.parse(f"{A}:1-3") | GtidSet.parse(f"{A}:4")) == f"{A}:1-4"
    assert not GtidSet.parse(" ")


@pytest.mark.parametrize(
    "text", ["nothing", f"{A}", f"{A}:0", f"{A}:5-3", f"{A}:1-", f"{A}:ta-g:1", f"{A}:1:-2", "0-1-5"]
)
def test_a_malformed_set_is_refused(text: str) -> None:
    """The error has the piece that is wrong."""
    with pytest.raises(PositionError, match="not a GTID set"):
        GtidSet.parse(text)


@pytest.mark.parametrize("data", [b"", bytes(7), b"\1" + bytes(7), b"\1" + bytes(23) + b"\xff" * 8])
def test_malformed_bytes_of_a_set_are_refused(data: bytes) -> None:
    """A count larger than the bytes is refused."""
    with pytest.raises(PositionError, match="not an encoded GTID set"):
        GtidSet.decode(data)


def test_positions_of_mariadb() -> None:
    """The later GTID of each domain; ahead, behind, and domains of only one side."""
    old, new = GtidPosition.parse("0-1-100,1-2-7"), GtidPosition.parse("0-3-120, 2-1-1")

    assert str(old | new) == "0-3-120,1-2-7,2-1-1"
    assert str(new - old) == "0-3-120,2-1-1"
    assert (old | new) >= old
    assert not old >= new
    assert str(old | GtidPosition.parse("1-2-8")) == "0-1-100,1-2-8"
    assert str(GtidPosition.parse("0-1-5,0-2-9,0-1-7")) == "0-2-9"
    assert parse_gtids("0-1-2", "mariadb") == GtidPosition.parse("0-1-2")
    with pytest.raises(PositionError, match="not a GTID position"):
        GtidPosition.parse("0-1")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{A}:1-5", GtidSet),
        (f"{A}:1", GtidSet),
        (f"{A}:7-9", GtidSet),
        (f"{A}:7,{B}:7", GtidSet),
        ("0-1-7", GtidPosition),
        (f"{A}:7", Gtid),
        (f"{A}:tag:7", Gtid),
        ("", type(None)),
    ],
)
def test_a_set_and_one_transaction_are_different_types(text: str, kind: type) -> None:
    """The one field of Canal's JSON gives three types; each writes the same text again."""
    found = parse_gtid_field(text)

    assert type(found) is kind
    assert ",".join(sorted(str(found or "").split(","))) == ",".join(sorted(text.split(",")))


@pytest.mark.integration
@pytest.mark.parametrize("server", ["mysql8", "mysql9"])
def test_as_the_server_does(server: str, request: pytest.FixtureRequest) -> None:
    """GTID_SUBTRACT, GTID_SUBSET and the bytes of PREVIOUS_GTIDS agree with the server."""
    mysql: MySqlServer = request.getfixturevalue(server)
    tag = ":some_tag:1-3:8:zz:1" if server == "mysql9" else ""
    one, two = f"{A}:1-10:12{tag}", f"{A}:3-4:12,{B}:1-5"
    with mysql.database() as database, mysql.root() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT GTID_SUBTRACT(%s, %s), GTID_SUBSET(%s, %s), GTID_SUBSET(%s, %s)", (one, two, two, one, one, one)
        )
        subtracted, subset, itself = cursor.fetchone() or ()
        settle = ["SET gtid_next = 'AUTOMATIC:of_mine'"] if tag else []
        capture(mysql, f"CREATE TABLE {database}.t (i INT)", *settle, f"INSERT INTO {database}.t VALUES (1)")
        cursor.execute("SELECT @@gtid_executed")
        executed = str((cursor.fetchone() or ())[0])
        block = capture(mysql)
        previous = block.index[block.index["type"] == 35][0]
        body = bytes(block.data[previous["offset"] + 19 : previous["offset"] + previous["length"]])

    a, b = GtidSet.parse(one), GtidSet.parse(two)
    assert str(a - b) == str(subtracted)
    assert (a >= b, a >= a) == (bool(subset), bool(itself))
    assert body == GtidSet.parse(executed).encode()
    assert str(GtidSet.decode(body)) == executed.replace("\n", "").replace(" ", "")
    assert ("of_mine" in executed) == bool(tag)


class TestWasExecuted:
    @pytest.mark.parametrize(
        ("there", "asked", "expected"),
        [
            (f"{A}:1-5", f"{A}:5", True),
            (f"{A}:1-5", f"{A}:6", False),
            (f"{A}:7", f"{A}:6", True),
            (f"{A}:7", f"{A}:8", False),
            (f"{A}:7", "4e11fa47-71ca-11e1-9e33-c80aa9429562:1", False),
            ("0-1-9", "0-2-9", True),
            ("0-1-9", "0-1-10", False),
            ("0-1-9", f"{A}:1", False),
            ("", f"{A}:1", False),
        ],
    )
    def test_forms(self, there: str, asked: str, expected: bool) -> None:
        """A set, the last transaction without GTID mode, and MariaDB's."""
        flavor = "mariadb" if asked.startswith("0") else "mysql"
        assert was_executed(parse_gtids(asked, flavor), there) is expected

    def test_text_of_one(self) -> None:
        """A single GTID, which without GTID mode a batch has, is taken for the last transaction."""
        assert was_executed(GtidSet.parse(f"{A}:2"), str(Gtid(A, "", 3)))
