"""The Flight door over a real socket: plans, tickets, streams, errors."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pyarrow as pa
import pytest
from pyarrow import flight

from cdc_core.client.changes import FlightRows, RowsDoor, TableRead, changes
from cdc_core.contract.claim import Claim
from cdc_core.doors.connections import peer_at, peer_of
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.flight.plans import Plans
from cdc_core.doors.flight.rows import ServedRows
from cdc_core.doors.flight.tickets import ClaimId, Read, read_ticket
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import (
    AccessDenied,
    ConfigError,
    RangeGone,
    SchemaError,
    ServiceUnavailable,
    SluiceError,
    TableStopped,
    UnknownDestination,
)
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from tests.support.door_double import TABLE, Destination, Server, opened
from tests.support.flight_calls import flight_info, read_split
from tests.support.proxy import Proxy
from tests.support.servers import free_port
from tests.support.waiting import until


@pytest.fixture
def destination() -> Destination:
    return Destination()


@pytest.fixture
def door(destination: Destination) -> Iterator[FlightDoor]:
    with opened(FlightDoor(Server(destination), "127.0.0.1", 0)) as door:
        yield door


def claimed(destination: Destination, rows: int, rules: Rules = NO_RULES) -> Claim:
    destination.put(rows)
    destination.rules = rules.to_json() if rules else ""
    claim = destination.claim(1001, rows, 0, "run-1", 60)
    assert claim is not None
    return claim


def test_splits_together_are_the_claims_rows(destination: Destination, door: FlightDoor) -> None:
    """Each row is in one split, and the plan has their number."""
    claim = claimed(destination, 1000)
    read = flight_info(door.url, claim, TABLE, splits=3)

    assert (read.rows, read.counts.upserts, read.counts.raw_inserts) == (1000, 1000, 1000)
    assert read.table == destination.registry.get(0)
    assert len(read.tickets) == 3
    ids = [key for ticket in read.tickets for batch in read_split(door.url, ticket) for key in batch["id"].to_pylist()]
    assert sorted(ids) == list(range(1, 1001))


def test_rows_come_as_the_rules_of_their_claim_have_them(
    destination: Destination, door: FlightDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both modes, with the definition that fits. Another claim of the same client has its own."""
    monkeypatch.setenv("DOOR_SALT", "pepper")
    hashed = Mask(MaskKind.SHA256, salt=Salt("DOOR_SALT"))
    rules = Rules({TABLE: TableRule(exclude=("qty",), rename=(("name", "title"),), masks=(("name", hashed),))})
    plain = claimed(destination, 2)
    claim = claimed(destination, 2, rules)

    for mode in ("net", "changes"):
        read = flight_info(door.url, claim, TABLE, mode=mode)
        assert [column.name for column in read.table.shown] == ["id", "title"]
        found = changes(door.url, claim, TABLE, mode=mode).read_all()
        assert found["title"].to_pylist() == [sha256(f"peppern{n}".encode()).hexdigest() for n in (1, 2)]
        assert "qty" not in found.column_names
        assert changes(door.url, plain, TABLE, mode=mode).read_all()["name"].to_pylist() == ["n1", "n2"]
    assert claim.tables[0].schema == read.table
    assert claim.rules == rules.fingerprint
    assert (read.counts.min_key, read.counts.max_key) == (None, None)
    net = flight_info(door.url, claim, TABLE)
    assert (net.counts.min_key, net.counts.max_key) == (1, 2)


def test_a_masked_key_has_no_bounds(
    destination: Destination, door: FlightDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are values of rows."""
    monkeypatch.setenv("DOOR_SALT", "pepper")
    rules = Rules({TABLE: TableRule(masks=(("id", Mask(MaskKind.SHA256, salt=Salt("DOOR_SALT"))),))})

    read = flight_info(door.url, claimed(destination, 2, rules), TABLE)

    assert (read.rows, read.counts.min_key, read.counts.max_key) == (2, None, None)


def test_rows_that_meet_a_condition_come_alone(destination: Destination, door: FlightDoor) -> None:
    """In both modes and in several splits, also where none does."""
    claim = claimed(destination, 3, Rules({TABLE: TableRule(where="name IN ('n1', 'n3')")}))
    none = claimed(destination, 2, Rules({TABLE: TableRule(where="id > 9000")}))

    for mode in ("net", "changes"):
        read = flight_info(door.url, claim, TABLE, mode=mode, splits=4)
        assert (read.rows, read.table.where) == (2, "name IN ('n1', 'n3')")
        assert changes(door.url, claim, TABLE, mode=mode).read_all()["name"].to_pylist() == ["n1", "n3"]
        assert flight_info(door.url, none, TABLE, mode=mode).tickets == ()


def test_a_rule_that_does_not_fit_stops_the_table(destination: Destination, door: FlightDoor) -> None:
    """The claim says so, and none of its rows is planned."""
    claim = claimed(destination, 2, Rules({TABLE: TableRule(exclude=("ssn",))}))

    assert claim.tables[0].schema.defect is not None
    with pytest.raises(TableStopped, match="names a column that the table does not have: 'ssn'") as refused:
        flight_info(door.url, claim, TABLE)
    assert refused.value.place == TABLE


def test_one_connection_serves_threads_and_outlives_the_door(destination: Destination) -> None:
    """Threads read splits side by side; after a restart of the service the next calls reach the new one."""
    claim = claimed(destination, 1000)
    with opened(FlightDoor(Server(destination), "127.0.0.1", free_port())) as door, ThreadPoolExecutor(3) as pool:
        rows = FlightRows(door.url)
        read = rows.info(claim, TABLE, splits=3)
        counts = pool.map(lambda ticket: sum(batch.num_rows for batch in rows.split(ticket)), read.tickets)
        assert sum(counts) == read.rows == 1000
        with pytest.raises(SchemaError):
            rows.info(claim, "shop.nothing")
    with rows, pytest.raises(ServiceUnavailable):
        rows.info(claim, TABLE)

    with FlightRows(door.url) as rows:
        with pytest.raises(ServiceUnavailable):
            rows.info(claim, TABLE)
        with opened(FlightDoor(Server(destination), "127.0.0.1", door.port)):
            assert _in_time(rows, claim).rows == 1000


def _in_time(rows: FlightRows, claim: Claim) -> TableRead:
    deadline = time.monotonic() + 60
    while True:
        try:
            return rows.info(claim, TABLE)
        except ServiceUnavailable:  # the connection is tried anew, but not at once
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_changes_reads_all_of_a_table(destination: Destination, door: FlightDoor) -> None:
    """One reader covers all splits, in the schema of the mode."""
    claim = claimed(destination, 250)

    table = changes(door.url, claim, TABLE, mode="changes", splits=2).read_all()
    assert table["_sluice_op"].unique().to_pylist() == ["insert"]
    assert table["name"].to_pylist()[:2] == ["n1", "n2"]
    assert table.num_rows == 250


def test_nothing_after_the_applied_version(destination: Destination, door: FlightDoor) -> None:
    """Rows that the lake already has are left out, and so are empty splits."""
    claim = claimed(destination, 10)

    read = flight_info(door.url, claim, TABLE, after=claim.end.version(), splits=4)
    assert (read.rows, read.tickets) == (0, ())
    assert changes(door.url, claim, TABLE, after=claim.end.version()).read_all().num_rows == 0


def test_ticket_of_a_gone_claim_is_refused(destination: Destination, door: FlightDoor) -> None:
    """A ticket does not outlive its claim, although its plan was made before."""
    claim = claimed(destination, 10)
    (ticket,) = flight_info(door.url, claim, TABLE).tickets
    assert sum(batch.num_rows for batch in read_split(door.url, ticket)) == 10

    destination.rollback(1001, claim.batch_id, None, "test")
    with pytest.raises(RangeGone) as refused:
        list(read_split(door.url, ticket))
    assert refused.value.hint == "Claim again."
    assert refused.value.place == "shop/1001"


def test_a_stream_that_began_goes_on(destination: Destination, door: FlightDoor) -> None:
    """A rollback does not interrupt a stream that is being read."""
    claim = claimed(destination, 300)
    reader = changes(door.url, claim, TABLE, splits=1)
    first = reader.read_next_batch().num_rows
    destination.rollback(1001, None, None, "test")
    assert first + sum(batch.num_rows for batch in reader) == 300


def test_errors_come_back_as_they_were_raised(destination: Destination, door: FlightDoor) -> None:
    """Class, message and remedy cross the wire."""
    claim = claimed(destination, 1)

    with pytest.raises(SchemaError) as unknown:
        flight_info(door.url, claim, "shop.nothing")
    assert unknown.value.place == "shop.nothing"
    with pytest.raises(UnknownDestination):
        flight_info(door.url, Claim(**{**_fields(claim), "destination": "nope"}), TABLE)
    with pytest.raises(ConfigError) as malformed:
        flight_info(door.url, claim, TABLE, splits=0)
    assert malformed.value.place == "splits"


def test_an_unexpected_exception_hides_its_text(destination: Destination, door: FlightDoor) -> None:
    """The text and traceback of an unexpected exception do not reach the client."""
    claim = claimed(destination, 1)
    destination.registry = None
    with pytest.raises(SluiceError) as failed:
        flight_info(door.url, claim, TABLE)
    assert "NoneType" not in str(failed.value)
    assert "InternalError" in failed.value.message


@pytest.mark.parametrize("ticket", [b"", b"{}", b"[]", b'{"destination": 1}', b"\xff\x00"])
def test_foreign_tickets_are_refused(door: FlightDoor, ticket: bytes) -> None:
    """A foreign ticket is refused with what is expected."""
    with pytest.raises(ConfigError):
        list(read_split(door.url, ticket))


def test_a_split_beyond_the_plan_is_refused(destination: Destination, door: FlightDoor) -> None:
    """A forged split number is an error, not an empty table."""
    claim = claimed(destination, 1)
    with pytest.raises(ConfigError):
        list(read_split(door.url, Read("shop", 1001, claim.batch_id, TABLE, splits=4).ticket(3)))
    with pytest.raises(ConfigError):
        read_ticket(Read("shop", 1001, 1, TABLE, splits=2).ticket(2))


def test_token_is_asked_for(destination: Destination) -> None:
    """Plans and rows need the token."""
    claim = claimed(destination, 5)
    with opened(FlightDoor(Server(destination), "127.0.0.1", 0, "s3cret")) as door:
        for token in (None, "wrong"):
            with pytest.raises(AccessDenied):
                flight_info(door.url, claim, TABLE, token=token)
        (ticket,) = flight_info(door.url, claim, TABLE, token="s3cret").tickets
        with pytest.raises(AccessDenied):
            list(read_split(door.url, ticket))
        assert sum(batch.num_rows for batch in read_split(door.url, ticket, token="s3cret")) == 5


def test_several_read_side_by_side(destination: Destination, door: FlightDoor) -> None:
    """Eight concurrent streams each arrive whole."""
    claim = claimed(destination, 2000)
    tickets = flight_info(door.url, claim, TABLE, splits=8).tickets
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda ticket: sum(b.num_rows for b in read_split(door.url, ticket)), tickets))
    assert (len(rows), sum(rows)) == (8, 2000)


def test_nobody_there() -> None:
    """An address without a service is a retryable error that says so."""
    claim = claimed(Destination(), 1)
    with pytest.raises(ServiceUnavailable) as away:
        flight_info("grpc://127.0.0.1:9", claim, TABLE)
    assert away.value.place == "grpc://127.0.0.1:9"


def test_taken_port_names_the_key() -> None:
    """A port in use is a configuration error with its key."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError) as refused:
        FlightDoor(Server(), "127.0.0.1", taken.getsockname()[1]).start()
    assert "sluice.flight.port" in refused.value.hint


def test_closes_while_a_stream_is_left_unread(destination: Destination) -> None:
    """A client that stops reading does not keep the service from ending."""
    door = FlightDoor(Server(destination), "127.0.0.1", 0)
    door.start()
    claim = claimed(destination, 2000)
    reader = changes(door.url, claim, TABLE)
    reader.read_next_batch()
    ending = threading.Thread(target=door.stop)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()


def test_get_schema(destination: Destination, door: FlightDoor) -> None:
    """The schema is available without tickets."""
    claim = claimed(destination, 1)
    command = {"destination": "shop", "client_id": 1001, "batch_id": claim.batch_id, "table": TABLE}
    with flight.connect(door.url) as client:
        answer = client.get_schema(flight.FlightDescriptor.for_command(json.dumps(command).encode()))
    assert answer.schema.names == ["id", "qty", "name", "_sluice_op"]
    assert answer.schema.field("id").type == pa.int64()


def test_what_is_sent_is_counted(destination: Destination) -> None:
    """Rows sent show in the traffic of their destination."""
    traffic = Traffic()
    with opened(FlightDoor(Server(destination), "127.0.0.1", 0, traffic=traffic)) as door:
        changes(door.url, claimed(destination, 100), TABLE).read_all()
    ((name, calls),) = traffic.items()
    assert (name, calls.packets["ROWS"]) == ("shop", 1)
    assert calls.nbytes > 100 * 12


@pytest.mark.parametrize("failing", ["info", "split"])
def test_a_connection_is_kept_until_a_call_fails(destination: Destination, failing: str) -> None:
    """An address may lead to another service meanwhile: it is asked after an error of the one before. Streams that have
    begun go on."""
    claim, before = claimed(destination, 300), Server(destination)
    with (
        opened(FlightDoor(before, "127.0.0.1", 0)) as former,
        opened(FlightDoor(Server(destination), "127.0.0.1", 0)) as other,
        Proxy(former.port) as proxy,
    ):
        door = RowsDoor(f"grpc://{proxy.address}")
        (ticket,) = door.info(claim, TABLE).tickets
        begun = door.split(ticket)
        read = next(begun).num_rows
        proxy.lead(other.port)
        assert sum(batch.num_rows for batch in door.split(ticket)) == 300
        assert (len(former.connections), len(other.connections)) == (1, 0)

        before.by_name.clear()
        with pytest.raises(UnknownDestination):
            _ = door.info(claim, TABLE) if failing == "info" else list(door.split(ticket))
        assert door.info(claim, TABLE).tickets == (ticket,)
        assert sum(batch.num_rows for batch in door.split(ticket)) == 300
        assert len(other.connections) == 1
        assert read + sum(batch.num_rows for batch in begun) == 300


def test_plans_are_made_once_and_forgotten_with_their_claim() -> None:
    """Concurrent callers share one plan; the sweep drops plans of claims that are gone."""
    made: list[Read] = []
    gone: set[int] = set()
    go = threading.Event()

    def plan(read: Read) -> str:
        go.wait(5)
        made.append(read)
        return f"plan {read.batch_id}"

    def check(claim: ClaimId) -> None:
        if claim.batch_id in gone:
            raise RangeGone("gone", hint="Claim again.")

    plans = Plans(plan, check, lambda _: False, size=2)
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(plans.get, Read("shop", 1, 1, TABLE)) for _ in range(4)]
        go.set()
        assert {answer.result() for answer in answers} == {"plan 1"}
    assert len(made) == 1
    for batch in (2, 3):
        plans.get(Read("shop", 1, batch, TABLE))
    assert repr(plans) == "<Plans 2 of 2 small=0>"
    gone.update((2, 3))
    plans.sweep()
    assert repr(plans) == "<Plans 0 of 2 small=0>"
    with pytest.raises(RangeGone):
        plans.get(Read("shop", 1, 3, TABLE))


def test_small_plans_are_made_once_for_many_tables() -> None:
    """A claim of many tables is planned before the first of them is read. Large plans leave room for small ones."""
    made: list[str] = []

    def plan(read: Read) -> str:
        made.append(read.table)
        return read.table

    plans = Plans(plan, lambda _: None, lambda name: name.startswith("small"), size=2)
    names = [f"small{n}" for n in range(300)]
    for name in [*names, "a", "b", "c", *names, "b", "c", "a"]:
        assert plans.get(Read("shop", 1, 1, name)) == name
    assert made == [*names, "a", "b", "c", "a"]


def test_the_least_recently_used_plan_goes() -> None:
    """Of the small plans as of the others: one that is asked for again stays."""
    made: list[str] = []

    def plan(read: Read) -> str:
        made.append(read.table)
        return read.table

    for is_small in (False, True):
        made.clear()
        plans = Plans(plan, lambda _: None, lambda _, small=is_small: small, size=2, small_size=2)
        for name in "abacab":
            plans.get(Read("shop", 1, 1, name))
        assert made == ["a", "b", "c", "b"]


def test_the_sweep_checks_each_claim_once() -> None:
    """However many tables of it are planned."""
    checked: list[ClaimId] = []
    plans = Plans(lambda read: read.table, checked.append, lambda name: name != "t0")
    for client, batch, table in itertools.product((1, 2), (1, 2), range(100)):
        plans.get(Read("shop", client, batch, f"t{table}"))
    checked.clear()
    plans.sweep()
    assert sorted(checked) == [("shop", client, batch) for client in (1, 2) for batch in (1, 2)]
    assert repr(plans) == "<Plans 4 of 32 small=396>"


def test_the_sweep_reads_no_blocks(destination: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a claim is outstanding is known without the blocks of its range."""
    claim = claimed(destination, 10)
    rows = ServedRows(Server(destination), Traffic())
    read = Read("shop", 1001, claim.batch_id, TABLE)
    planned = rows.info(read)
    with monkeypatch.context() as patched:
        patched.setattr(destination, "slices", None)
        rows.plans.sweep()
        assert rows.info(read) == planned
    destination.ack(1001, claim.batch_id, "run-1")
    rows.plans.sweep()
    assert repr(rows.plans) == "<Plans 0 of 32 small=0>"
    with pytest.raises(RangeGone, match="batch 1 is gone"):
        rows.info(read)


def test_a_plan_that_failed_is_not_kept() -> None:
    """The next caller tries again."""
    answers: list[object] = [SchemaError("not yet", hint="Wait."), "plan"]

    def plan(_: Read) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    plans = Plans(plan, lambda _: None, lambda _: False)
    with pytest.raises(SchemaError):
        plans.get(Read("shop", 1, 1, TABLE))
    assert plans.get(Read("shop", 1, 1, TABLE)) == "plan"


def _fields(claim: Claim) -> dict[str, object]:
    return {name: getattr(claim, name) for name in claim.__dataclass_fields__}


def test_connections_are_bounded(destination: Destination) -> None:
    """Too many that make no call end at once, the oldest first; a stream goes on, and clients with access stay."""
    claim = claimed(destination, 200_000)
    with opened(FlightDoor(Server(destination), "127.0.0.1", 0, connections=5)) as door, FlightRows(door.url) as rows:
        (ticket,) = rows.info(claim, TABLE).tickets
        stream = rows.split(ticket)
        read = next(stream).num_rows
        idle = [socket.create_connection(("127.0.0.1", door.port), 10) for _ in range(50)]
        until(lambda: sum(_has_ended(one) for one in idle) == 46)
        assert not any(_has_ended(one) for one in idle[-3:])
        assert read + sum(batch.num_rows for batch in stream) == 200_000
        for one in idle:
            one.close()
        more = [FlightRows(door.url) for _ in range(8)]
        for client in more:
            client.info(claim, TABLE)
        until(lambda: len(door.connections) == 5)
        assert [client.info(claim, TABLE).rows for client in more] == [200_000] * 8  # those ended connect again
        for client in more:
            client.close()


def _has_ended(connection: socket.socket) -> bool:
    connection.settimeout(0.2)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    return True


def test_a_peer_of_grpc_is_that_of_its_socket() -> None:
    """IPv4 and IPv6, also one as the other."""
    assert peer_of("ipv4:127.0.0.1:4711") == peer_at(("::ffff:127.0.0.1", 4711, 0, 0)) == ("127.0.0.1", 4711)
    assert peer_of("ipv6:%5B::1%5D:4711") == peer_of("ipv6:[::1]:4711") == peer_at(("::1", 4711, 0, 0)) == ("::1", 4711)
