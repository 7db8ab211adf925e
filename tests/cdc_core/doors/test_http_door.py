"""The HTTP door over a real socket, in front of a double of the server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress

import httpx
import pytest

from cdc_core.client.connector import Connector
from cdc_core.contract.status import ErrorReport
from cdc_core.destination.rewind import RewindTarget
from cdc_core.doors import bounds
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind, Salt
from tests.support.door_double import TABLE, Destination, Server, cursor_store_away, opened

CLIENT = "/v1/destinations/shop/clients/1001"
CLAIM = {"batch_size": 100, "timeout_seconds": 0.0, "owner": "run-1", "lease_seconds": 30.0}


@pytest.fixture
def destination() -> Destination:
    return Destination()


@pytest.fixture
def http(destination: Destination) -> Iterator[httpx.Client]:
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door, httpx.Client(base_url=door.url) as client:
        yield client


@pytest.fixture
def guarded(destination: Destination) -> Iterator[httpx.Client]:
    door = HttpDoor(Server(destination), "127.0.0.1", 0, "s3cret")
    with opened(door), httpx.Client(base_url=door.url) as client:
        yield client


def test_claim_renew_ack(http: httpx.Client, destination: Destination) -> None:
    """A claim goes through its life over HTTP."""
    destination.put(3)
    claim = http.post(f"{CLIENT}/claims", json=CLAIM).json()

    assert claim["batch_id"] == 1
    assert claim["tables"][0]["inserts"] == 3
    assert http.get(CLIENT).json()["claims"][0]["owner"] == "run-1"
    renewed = http.post(f"{CLIENT}/claims/1/renew", json={"owner": "run-1", "lease_seconds": 90.0})
    assert renewed.json()["lease_deadline"] > claim["lease_deadline"] + 50
    acked = http.post(f"{CLIENT}/claims/1/ack", json={"owner": "run-1"})
    assert acked.json()["cursor"]["position"] == claim["end"]["position"]
    assert http.post(f"{CLIENT}/claims", json=CLAIM).status_code == 204


def test_a_claim_is_as_the_clients_rules_have_it(http: httpx.Client, destination: Destination) -> None:
    """Rules count from the next claim on. A claim without rules has no word of them."""
    rules = Rules({TABLE: TableRule(exclude=("qty",))})
    with Connector(str(http.base_url), "shop") as connector:
        destination.put(1)
        plain = connector.get_without_ack(100, owner="run-1")
        connector.set_rules(rules)
        destination.put(1)
        claim = connector.get_without_ack(100, owner="run-1")
        assert plain is not None
        assert claim is not None
        assert (plain.rules, claim.rules) == ("", rules.fingerprint)
        assert [column.name for column in claim.tables[0].schema.shown] == ["id", "name"]
        assert connector.rules() == rules
        connector.set_rules(NO_RULES)
        assert connector.rules() == NO_RULES
    assert "rules" not in http.post(f"{CLIENT}/claims", json=CLAIM).text


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{", "the text is not a set of rules"),
        (Rules({TABLE: TableRule(("a",), ("b",))}).to_json(), "both include and exclude"),
        (
            Rules({TABLE: TableRule(masks=(("name", Mask(MaskKind.SHA256, salt=Salt("NO_SUCH_SALT"))),))}).to_json(),
            "a salt is missing",
        ),
    ],
)
def test_rules_that_cannot_be_applied_are_refused(
    http: httpx.Client, destination: Destination, rules: str, message: str
) -> None:
    """The rules of before stay. A missing salt is named."""
    answer = http.put(f"{CLIENT}/rules", json={"rules": rules})

    assert answer.json()["error"] == "ConfigError"
    assert message in answer.json()["message"]
    assert not destination.rules
    if "salt" in message:
        assert "NO_SUCH_SALT" in answer.json()["hint"]


def test_rollback_of_one_and_of_all(http: httpx.Client, destination: Destination) -> None:
    """Both kinds of rollback answer with the ids given back."""
    for first in (1, 10, 20):
        destination.put(2, first)
        http.post(f"{CLIENT}/claims", json=CLAIM)

    later = http.post(f"{CLIENT}/claims/2/rollback", json={"owner": "run-1", "reason": "merge failed"})
    assert later.json() == {"rolled_back": [2, 3]}
    rest = http.post(f"{CLIENT}/rollback", json={"owner": None, "reason": "give back"})
    assert rest.json() == {"rolled_back": [1]}


def test_lists_destinations_and_tables(http: httpx.Client, destination: Destination) -> None:
    """Status and tables are as the contract says."""
    destination.put(1)

    assert [d["destination"] for d in http.get("/v1/destinations").json()] == ["shop"]
    status = http.get("/v1/destinations/shop").json()
    assert status["store"]["capacity_items"] == 16384
    assert status["error"] is None
    (table,) = http.get("/v1/destinations/shop/tables").json()
    assert table["primary_key"] == ["id"]


def test_switches_a_destination(http: httpx.Client, guarded: httpx.Client) -> None:
    """Start, stop and reload answer with the new status; a deliberate stop leaves the service ready."""
    home = "/v1/destinations/shop"
    assert http.post(f"{home}/stop").json()["note"] == "stopped by an operator"
    assert http.get("/readyz").status_code == 200
    assert "stopped by an operator" in http.get("/").text
    assert http.post(f"{home}/start").json()["state"] == "running"
    assert http.post(f"{home}/reload").json()["state"] == "starting"
    assert http.post("/v1/destinations/nobody/stop").status_code == 404
    assert guarded.post(f"{home}/stop").status_code == 401
    assert {f"{home.replace('shop', '{destination}')}/{verb}" for verb in ("start", "stop", "reload")} <= set(
        http.get("/openapi.json").json()["paths"]
    )


def test_shows_how_far_clients_are_behind(http: httpx.Client) -> None:
    """The backlog is as the service computes it."""
    told = http.get("/v1/destinations/shop/positions").json()
    assert (told["end"]["position"], told["clients"][0]["bytes"]) == (9000, 8996)
    assert http.get("/v1/destinations/nobody/positions").status_code == 404


def test_resets_to_a_place(http: httpx.Client, destination: Destination) -> None:
    """A reset is a dry run unless asked otherwise. Places are names or positions; null means all clients."""
    reset = "/v1/destinations/shop/reset"
    assert http.post(reset, json={"to": "earliest"}).json()["done"] is False
    place = {"journalName": "mysql-bin.000003", "position": 4}
    answer = http.post(reset, json={"to": place, "client_id": 1001, "moved": True, "dry_run": False})
    assert (answer.status_code, answer.json()["done"]) == (200, True)
    assert destination.calls == [
        ("reset", RewindTarget("earliest"), True),
        ("reset", RewindTarget(EntryPosition("mysql-bin.000003", 4), 1001, True), False),
    ]
    assert http.post(reset, json={"to": "yesterday"}).status_code == 400
    assert http.post(reset, json={}).status_code == 400


def test_stops_and_resumes_a_table(http: httpx.Client, destination: Destination) -> None:
    """A stopped table is kept with its reason until it is resumed."""
    body = {"reason": "type changed", "hint": "rebuild", "position": {"journalName": "b.000001", "position": 4}}

    assert http.put(f"{CLIENT}/stopped/{TABLE}", json=body).status_code == 204
    assert destination.stopped[0].table == TABLE
    assert not destination.stopped[0].is_blocked
    assert http.put(f"{CLIENT}/stopped/{TABLE}", json={**body, "kind": "blocked"}).status_code == 204
    assert http.get(CLIENT).json()["stopped"][0]["kind"] == "blocked"
    assert http.put(f"{CLIENT}/stopped/{TABLE}", json={**body, "kind": "odd"}).status_code == 400
    assert http.delete(f"{CLIENT}/stopped/{TABLE}").status_code == 204
    assert destination.stopped == []


def test_rows_that_wait_are_reported_by_table(http: httpx.Client, destination: Destination) -> None:
    """A table without any is named no more, and a whole report forgets the others."""
    path = f"{CLIENT}/quarantined"

    assert http.put(path, json={"rows": {TABLE: 2, "shop.users": 1}}).status_code == 204
    assert http.put(path, json={"rows": {TABLE: 0}}).status_code == 204
    assert http.get(CLIENT).json()["quarantined"] == {"shop.users": 1}
    assert http.put(path, json={"rows": {"shop.more": 3}, "whole": True}).status_code == 204
    assert destination.quarantined == {"shop.more": 3}


def test_blocked_tables_are_reported(http: httpx.Client, destination: Destination) -> None:
    """A report has all of them, and is bounded: it is kept with the cursor."""
    path, one = f"{CLIENT}/blocked", {"table": "shop.users", "reason": "2 rows fail", "hint": "Accept it."}

    assert http.put(path, json={"tables": [one]}).status_code == 204
    (shown,) = http.get(CLIENT).json()["blocked"]
    assert shown == {**one, "kind": "blocked", "position": None, "passed": None, "copy_needed": False}
    for tables in ([one] * 101, [{**one, "reason": "x" * 501}], [{**one, "kind": "stopped"}], [{"table": TABLE}]):
        assert http.put(path, json={"tables": tables}).status_code == 400
    assert http.put(path, json={"tables": []}).status_code == 204
    assert destination.blocked == ()


@pytest.mark.parametrize(
    "rows", [{TABLE: -1}, {TABLE: "2"}, {"": 1}, {"x" * 301: 1}, {f"a.t{at}": 1 for at in range(501)}]
)
def test_a_report_of_rows_that_wait_is_bounded(
    http: httpx.Client, destination: Destination, rows: dict[str, object]
) -> None:
    """It is kept with the cursor, so nobody can make it large."""
    assert http.put(f"{CLIENT}/quarantined", json={"rows": rows}).status_code == 400
    assert destination.quarantined == {}


@pytest.mark.parametrize(
    ("path", "body", "status", "place"),
    [
        ("/v1/destinations/nope/clients/1/claims", CLAIM, 404, ""),
        (f"{CLIENT}/claims", {**CLAIM, "batchsize": 5}, 400, "body.batchsize"),
        (f"{CLIENT}/claims", {**CLAIM, "batch_size": 0}, 400, "body.batch_size"),
        (f"{CLIENT}/claims", {**CLAIM, "batch_size": "5"}, 400, "body.batch_size"),
        (f"{CLIENT}/claims", {**CLAIM, "timeout_seconds": 61.0}, 400, "body.timeout_seconds"),
        (f"{CLIENT}/claims/77/ack", {"owner": "run-1"}, 409, "shop"),
        (f"{CLIENT}/claims/x/ack", {"owner": "run-1"}, 400, "path.batch_id"),
        ("/v1/nothing", {}, 404, "POST /v1/nothing"),
    ],
)
def test_refusals_have_one_form(
    http: httpx.Client, path: str, body: dict[str, object], status: int, place: str
) -> None:
    """Every refusal has message, place and remedy."""
    answer = http.post(path, json=body)

    assert answer.status_code == status
    told = answer.json()
    assert set(told) == {"error", "message", "place", "hint"}
    assert told["place"] == place
    assert told["hint"]


def test_a_body_that_is_not_declared_json_is_refused(http: httpx.Client, destination: Destination) -> None:
    """The form of another site cannot make a browser claim."""
    destination.put(1)
    body = '{"batch_size": 1, "owner": "x"}'

    answer = http.post(f"{CLIENT}/claims", content=body, headers={"content-type": "text/plain"})
    assert answer.status_code == 400
    assert destination.held == {}


def test_another_sites_name_is_refused(http: httpx.Client) -> None:
    """On loopback without a token only the names of loopback are answered."""
    assert http.get("/v1/destinations", headers={"host": "evil.example:80"}).status_code == 401
    assert http.get("/v1/destinations", headers={"host": "localhost:80"}).status_code == 200


def test_store_of_cursors_away_is_503(http: httpx.Client, destination: Destination) -> None:
    """The error has the remedy and is worth a retry."""
    destination.fail = cursor_store_away()

    answer = http.post(f"{CLIENT}/claims/1/ack", json={"owner": "run-1"})
    assert (answer.status_code, answer.json()["hint"]) == (503, "Start ZooKeeper.")


def test_an_unexpected_exception_hides_its_text(http: httpx.Client, destination: Destination) -> None:
    """An unexpected exception is a 500 of the same form, without its text."""
    destination.fail = ValueError("password=hunter2")

    answer = http.post(f"{CLIENT}/claims", json=CLAIM)
    assert answer.status_code == 500
    assert answer.json()["error"] == "InternalError"
    assert "hunter2" not in answer.text


def test_many_waiting_claimers_hold_up_nobody(http: httpx.Client, destination: Destination) -> None:
    """While 60 claimers wait the status answers, and each row reaches one of them."""

    def claim(_: int) -> int:
        return claimers.post(f"{CLIENT}/claims", json={**CLAIM, "timeout_seconds": 60.0}).status_code

    every = httpx.Limits(max_connections=60)
    with httpx.Client(base_url=http.base_url, limits=every, timeout=120) as claimers, ThreadPoolExecutor(60) as pool:
        answers = [pool.submit(claim, n) for n in range(60)]
        time.sleep(1.0)
        assert http.get("/v1/destinations", timeout=60).status_code == 200
        assert not any(answer.done() for answer in answers)
        destination.put(1)
        first, waiting = wait(answers, 60, FIRST_COMPLETED)
        assert ([answer.result() for answer in first], len(waiting)) == ([200], 59)
        for number in range(59):
            destination.put(1, 10 + number)
        assert {answer.result() for answer in answers} == {200}
    assert len(destination.held) == 60


def test_a_claim_of_a_claimer_that_left_is_given_back(http: httpx.Client, destination: Destination) -> None:
    """Rows that arrive for a broken connection are claimed by nobody."""
    with pytest.raises(httpx.ReadTimeout):
        http.post(f"{CLIENT}/claims", json={**CLAIM, "timeout_seconds": 20.0}, timeout=0.5)
    destination.put(1)

    time.sleep(1.2)  # the claimer's wait is looked at once a second
    deadline = time.monotonic() + 60
    while destination.held or len(destination.blocks) != 1:
        assert time.monotonic() < deadline, destination.held
        time.sleep(0.05)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_cannot_switch_a_destination(
    http: httpx.Client, destination: Destination, headers: dict[str, str]
) -> None:
    """A browser adds these headers to what such a page sends, also without a body. Reading stays as it is."""
    for verb in ("stop", "start", "reload"):
        answer = http.post(f"/v1/destinations/shop/{verb}", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (401, "AccessDenied")

    assert http.get("/v1/destinations/shop", headers=headers).json()["state"] == "running"


def test_a_page_of_the_service_itself_may_call(http: httpx.Client) -> None:
    """Its origin is the host that is called."""
    own = {"Origin": str(http.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}

    assert http.post(f"{CLIENT}/rollback", json={"owner": None, "reason": "test"}, headers=own).status_code == 200


def test_token_is_asked_for(guarded: httpx.Client) -> None:
    """Without the token only health answers."""
    for path in ("/", "/docs", "/metrics", "/openapi.json", "/v1/destinations"):
        assert guarded.get(path).status_code == 401
        assert guarded.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
        assert guarded.get(path, headers={"authorization": "Bearer s3cret"}).status_code == 200
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/readyz").json() == {"ready": True}


def test_readiness_without_the_token_is_yes_or_no(guarded: httpx.Client, destination: Destination) -> None:
    """Addresses and errors of sources are for those who may read."""
    destination.connected = False
    assert (guarded.get("/readyz").status_code, guarded.get("/readyz").json()) == (503, {"ready": False})
    told = guarded.get("/readyz", headers={"authorization": "Bearer s3cret"}).json()
    assert "not connected" in told["not_ready"][0]["message"]


def test_resting_connections_make_room(destination: Destination) -> None:
    """More connections than the door keeps, which say nothing or half a request: calls are answered meanwhile."""
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0, connections=8)) as door, ExitStack() as held:
        idle = [held.enter_context(socket.create_connection(("127.0.0.1", door.port), 10)) for _ in range(40)]
        for one in idle[::2]:
            with suppress(OSError):  # already closed
                one.sendall(b"POST /v1/destinations/shop/clients/1001/claims HTTP/1.1\r\nhost: 127")
        for _ in range(20):
            assert httpx.get(f"{door.url}/v1/destinations/shop").status_code == 200
        with suppress(ConnectionResetError):  # of one whose half request came behind the end
            assert idle[0].recv(1) == b""


def test_a_request_that_trickles_in_ends(destination: Destination, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not hold a connection; a claim that waits for rows does."""
    monkeypatch.setattr(bounds, "REST_SECONDS", 0.4)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door, ThreadPoolExecutor(1) as pool:
        body = CLAIM | {"timeout_seconds": 2.0}
        waits = pool.submit(httpx.post, f"{door.url}{CLIENT}/claims", json=body, timeout=10)
        with (
            socket.create_connection(("127.0.0.1", door.port), 10) as slow,
            pytest.raises(OSError, match=r"reset|pipe"),
        ):
            _trickle(slow, b"GET /healthz HTTP/1.1\r\nx-padding: 0123456789012345")
        assert waits.result().status_code == 204


def _trickle(connection: socket.socket, data: bytes) -> None:
    for one in data:
        connection.sendall(bytes([one]))
        time.sleep(0.1)


def test_calls_that_hang_in_a_source_do_not_hold_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty table lists of a hung source: another destination, and this one's own acks and status, answer at once."""
    hung, shop = Destination(name="hung"), Destination()
    released = threading.Event()
    monkeypatch.setattr(hung, "tables", lambda: released.wait(20) and [], raising=False)
    with opened(HttpDoor(Server(hung, shop), "127.0.0.1", 0)) as door, ThreadPoolExecutor(60) as pool:
        calls = [
            pool.submit(httpx.get, f"{door.url}/v1/destinations/hung/tables", timeout=30, trust_env=False)
            for _ in range(60)
        ]
        time.sleep(1.0)
        began = time.monotonic()
        for name in ("shop", "hung"):
            assert httpx.get(f"{door.url}/v1/destinations/{name}", timeout=10).status_code == 200
        assert httpx.get(f"{door.url}/v1/destinations/shop/tables", timeout=10).status_code == 200
        took = time.monotonic() - began
        released.set()
        assert all(call.result().status_code == 200 for call in calls)
    assert took < 3


def test_browsers_read_with_a_password_but_do_not_write(guarded: httpx.Client, destination: Destination) -> None:
    """HTTP Basic opens the pages; a claim needs a bearer token."""
    assert guarded.get("/", auth=("me", "s3cret")).status_code == 200
    assert guarded.get("/").headers["www-authenticate"].startswith("Basic")
    assert guarded.post(f"{CLIENT}/claims", json=CLAIM, auth=("me", "s3cret")).status_code == 401


def test_ready_names_what_is_not(http: httpx.Client, destination: Destination) -> None:
    """Ready means that all run, are connected, and hear from their source."""
    assert http.get("/readyz").status_code == 200

    destination.numbers["heartbeat_age_seconds"] = 16.0
    assert http.get("/readyz").status_code == 503
    destination.connected = False
    assert "not connected" in http.get("/readyz").json()["not_ready"][0]["message"]
    destination.state, destination.error = "failed", ErrorReport("SourceError", "m", "p", "h")
    assert http.get("/readyz").json()["not_ready"][0]["hint"] == "h"
    assert http.get("/healthz").json() == {"status": "alive"}


def test_openapi_lists_the_calls_with_examples(http: httpx.Client) -> None:
    """The document has each call of the contract; its page loads nothing from elsewhere."""
    document = http.get("/openapi.json").json()
    client = "/v1/destinations/{destination}/clients/{client_id}"

    assert {"/v1/destinations", f"{client}/claims", f"{client}/claims/{{batch_id}}/ack"} <= document["paths"].keys()
    assert document["components"]["schemas"]["ClaimRequest"]["properties"]["batch_size"]["examples"] == [10000]
    page = http.get("/docs").text
    assert f"{client}/rollback" in page
    assert "https://" not in page


def test_taken_port_names_the_key(http: httpx.Client) -> None:
    """A port in use is a configuration error with its key."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            HttpDoor(Server(), "127.0.0.1", port).start()
    assert refused.value.place == f"127.0.0.1:{port}"
    assert "canal.metrics.pull.port" in refused.value.hint


def test_stops_while_claimers_wait(destination: Destination) -> None:
    """A door closes within seconds and leaves no thread."""
    door = HttpDoor(Server(destination), "127.0.0.1", 0)
    door.start()
    body = {**CLAIM, "timeout_seconds": 50.0}
    waiting = threading.Thread(target=lambda: _ignore(door.url, body))
    waiting.start()
    time.sleep(0.3)
    began = time.monotonic()
    door.stop()
    waiting.join(60)
    assert time.monotonic() - began < 45  # and not when the claim's time is over
    assert not any(thread.name == "http door" for thread in threading.enumerate())


def _ignore(url: str, body: dict[str, object]) -> None:
    try:
        httpx.post(f"{url}{CLIENT}/claims", json=body, timeout=60)
    except httpx.TransportError:
        return
