"""The names, types and labels of /metrics."""

from __future__ import annotations

import re

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cdc_core.contract.stages import STAGES
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.doors.http import HttpDoor
from cdc_core.doors.http.metrics import render
from cdc_core.doors.http.pages import status_page
from cdc_core.doors.traffic import Traffic
from cdc_core.position import EntryPosition
from tests.support.door_double import Destination, Server, opened
from tests.support.metrics import KEYS

NUMBERS = {key: float(at) for at, key in enumerate(KEYS, start=1)}

# name, type, labels: what dashboards made for Canal look for
CANAL = [
    ("canal_instance", "gauge", {"destination", "mode"}),
    ("canal_instance_subscriptions", "gauge", {"destination"}),
    ("canal_instance_traffic_delay", "gauge", {"destination"}),
    ("canal_instance_transactions", "counter", {"destination"}),
    ("canal_instance_received_binlog_bytes", "counter", {"destination", "parser"}),
    ("canal_instance_parser_mode", "gauge", {"destination", "parallel"}),
    ("canal_instance_publish_blocking_time", "counter", {"destination", "parser"}),
    ("canal_instance_sink_blocking_time", "counter", {"destination"}),
    ("canal_instance_store", "gauge", {"destination", "batchMode", "size"}),
    ("canal_instance_store_produce_seq", "counter", {"destination"}),
    ("canal_instance_store_consume_seq", "counter", {"destination"}),
    ("canal_instance_store_produce_mem", "counter", {"destination"}),
    ("canal_instance_store_consume_mem", "counter", {"destination"}),
    ("canal_instance_put_delay", "gauge", {"destination"}),
    ("canal_instance_get_delay", "gauge", {"destination"}),
    ("canal_instance_ack_delay", "gauge", {"destination"}),
    ("canal_instance_put_rows", "counter", {"destination"}),
    ("canal_instance_get_rows", "counter", {"destination"}),
    ("canal_instance_ack_rows", "counter", {"destination"}),
    ("canal_instance_client_packets", "counter", {"destination", "packetType"}),
    ("canal_instance_client_bytes", "counter", {"destination"}),
    ("canal_instance_client_empty_batches", "counter", {"destination"}),
    ("canal_instance_client_request_error", "counter", {"destination", "errorCode"}),
]


@pytest.fixture
def text() -> str:
    """A scrape after a few calls."""
    traffic = Traffic()
    traffic.sent("shop", "MESSAGES", 100, empty=True)
    traffic.failed("shop", 409)
    traffic.took("shop", 20.0)
    traffic.took("shop", 5000.0)
    return render(Server(Destination(numbers=NUMBERS)), traffic)


@pytest.mark.parametrize(("name", "kind", "labels"), CANAL)
def test_canals_names_types_and_labels(text: str, name: str, kind: str, labels: set[str]) -> None:
    """Each name is that of Canal, without a suffix."""
    assert f"# TYPE {name} {kind}\n" in text
    (sample,) = re.findall(rf"^{name}\{{(.*)\}} .*$", text, re.MULTILINE)
    assert set(re.findall(r'(\w+)="', sample)) == labels
    assert f"{name}_total" not in text


def test_latency_is_a_histogram_with_canals_buckets(text: str) -> None:
    """Buckets are cumulative, in milliseconds."""
    name = "canal_instance_client_request_latency"
    assert re.findall(rf'{name}_bucket{{destination="shop",le="(.*?)"}} (.*)', text) == [
        ("2.5", "0.0"),
        ("10.0", "0.0"),
        ("25.0", "1.0"),
        ("100.0", "1.0"),
        ("+Inf", "2.0"),
    ]
    assert f'{name}_sum{{destination="shop"}} 5020.0' in text


def test_what_is_missing_there_is_under_our_own_names(text: str) -> None:
    """Errors, reconnects, leadership, ages and counts have names of ours."""
    assert 'sluice_reconnects_total{destination="shop"}' in text
    for name in ("leader", "cursor_age_seconds", "unacked_batches", "schema_versions", "heartbeat_age_seconds"):
        assert f'sluice_{name}{{destination="shop"}}' in text
    assert 'sluice_state{destination="shop",state="running"} 1.0' in text


def test_every_number_of_an_instance_is_shown(text: str) -> None:
    """No number is lost or mixed up with another."""
    shown = {}
    for line in text.splitlines():
        if match := re.match(r"(?:canal_instance|sluice)_(\w+?)(?:_total)?\{.*\} (.*)", line):
            shown[match[1]] = float(match[2])
    assert {key: shown.get(key) for key in NUMBERS} == NUMBERS


def test_stopped_tables_have_names() -> None:
    """Each has a sample with its kind, up to a hundred of a client."""
    place = EntryPosition("mysql-bin.000001", 4)
    tables = [StoppedTable(f"shop.t{at:03}", "why", "what to do", place) for at in range(101)]
    blocked = StoppedTable("shop.orders", "2 rows fail", "Accept it.", place, kind="blocked")
    samples = [line for line in scrape(Destination(stopped=[*tables, blocked])) if line.startswith("sluice_stopped_ta")]

    assert samples[0] == (
        'sluice_stopped_table{client="1001",destination="shop",kind="blocked",table="shop.orders"} 1.0'
    )
    assert len(samples) == 100
    assert not any(line.startswith("sluice_stopped_table{") for line in scrape(Destination()))


def scrape(destination: Destination) -> list[str]:
    return render(Server(destination), Traffic()).splitlines()


def test_an_unknown_number_has_no_sample() -> None:
    """None is not shown as zero."""
    text = render(Server(Destination(numbers={"ack_delay": None, "get_delay": 0})), Traffic())
    assert "canal_instance_get_delay{" in text
    assert "canal_instance_ack_delay{" not in text


def test_each_stage_has_its_seconds() -> None:
    """One counter, with the stage as a label; a destination that does not run has none."""
    lines = scrape(Destination(stages={"decode": 1.5, "apply": 40.0}))
    assert "# TYPE sluice_stage_seconds_total counter" in lines
    assert [line for line in lines if line.startswith("sluice_stage_seconds_total{")] == [
        'sluice_stage_seconds_total{destination="shop",stage="decode"} 1.5',
        'sluice_stage_seconds_total{destination="shop",stage="apply"} 40.0',
    ]
    assert not any(line.startswith("sluice_stage_seconds_total{") for line in scrape(Destination()))


def test_the_page_shows_where_the_last_minute_went() -> None:
    """A line a stage, with what happens in it; a stage that this version does not know has its seconds alone."""
    shop = Destination(stages={"quiet": 19.0, "apply": 40.0, "later": 1.0})
    text = bytes(status_page(Server(shop), "body").body).decode()
    rows = re.findall(r"<tr><td>(\w+)</td><td class=\"num\">(.*?)</td><td>(.*?)</td></tr>", text)
    assert rows == [
        ("quiet", "19 s", STAGES["quiet"]),
        ("apply", "40 s", STAGES["apply"]),
        ("later", "1.0 s", ""),
    ]
    assert "Where time goes" not in bytes(status_page(Server(Destination()), "body").body).decode()


def test_a_scrape_over_http_parses() -> None:
    """Prometheus can read the text, and earlier calls are counted."""
    with opened(HttpDoor(Server(Destination(numbers=NUMBERS)), "127.0.0.1", 0)) as door:
        claims = f"{door.url}/v1/destinations/shop/clients/1001/claims"
        assert httpx.post(claims, json={"batch_size": 1, "owner": "me"}).status_code == 204
        assert httpx.post(f"{claims}/9/ack", json={"owner": "me"}).status_code == 409
        assert httpx.get(f"{door.url}/v1/destinations/nope").status_code == 404
        answer = httpx.get(f"{door.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["canal_instance_client_empty_batches"].samples[0].value == 1
    assert families["canal_instance_client_request_error"].samples[0].labels["errorCode"] == "409"
    assert "nope" not in answer.text


def test_rows_that_wait_have_a_sample_by_table() -> None:
    """Labels stay few: of very many tables those with the most rows have one, and the others share one."""
    destination = Destination()
    destination.quarantined = {"shop.orders": 2, "shop.users": 9}
    scrape = render(Server(destination), Traffic())
    assert 'sluice_quarantined_rows{client="1001",destination="shop",table="shop.orders"} 2.0' in scrape
    assert 'table="others"' not in scrape
    destination.quarantined = {f"shop.t{at:03}": 1 for at in range(300)} | {"shop.orders": 2}
    scrape = render(Server(destination), Traffic())
    assert 'sluice_quarantined_rows{client="1001",destination="shop",table="shop.orders"} 2.0' in scrape
    assert 'sluice_quarantined_rows{client="1001",destination="shop",table="others"} 201.0' in scrape
    assert scrape.count("sluice_quarantined_rows{") == 101


def test_a_table_whose_log_is_blocked_has_a_sample() -> None:
    """As one that the service has stopped."""
    destination = Destination()
    destination.report_blocked(1001, [StoppedTable("shop.users", "2 rows fail", "Accept it.", None)])
    labels = 'client="1001",destination="shop",kind="blocked",table="shop.users"'
    assert f"sluice_stopped_table{{{labels}}} 1.0" in render(Server(destination), Traffic())
