"""The files in `deploy/` for Prometheus and Grafana: their names are those of `/metrics`, and Prometheus loads them."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
import yaml

from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.destination.metrics import Metrics
from cdc_core.doors.http.metrics import render
from cdc_core.doors.traffic import Traffic
from cdc_core.errors import ConfigError
from cdc_core.monitor.metrics import METRICS
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from orchestration.stack.ports import free_port
from orchestration.stack.service import Service
from tests.support.door_double import Destination, Server
from tests.support.prometheus import Prometheus, promtool
from tests.support.queue_service import configure
from tests.support.waiting import until

ROOT = Path(__file__).parents[1]
RULES = ROOT / "deploy" / "prometheus"
ALERTS = yaml.safe_load((RULES / "rules.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "sluice.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SCHEMA = json.loads((ROOT / "tests" / "fixtures" / "dashboard.schema.json").read_text())
EXPRESSIONS = [alert["expr"] for alert in ALERTS] + [one["expr"] for panel in PANELS for one in panel["targets"]]
_NAME = re.compile(r"\b(?:canal_instance|sluice)\w*(?=\{|\W|$)(?!\")")
PLACE = EntryPosition("mysql-bin.000001", 4)


def names_in(expression: str) -> set[str]:
    """The metrics of an expression; words within quotes are none."""
    return set(_NAME.findall(re.sub(r'"[^"]*"', '""', expression)))


@pytest.fixture(scope="module")
def rendered() -> set[str]:
    """The names of all samples that a service or the monitor can render."""
    traffic = Traffic()
    traffic.sent("shop", "MESSAGES", 100, empty=True)
    traffic.failed("shop", 409)
    traffic.took("shop", 20.0)
    every = dict.fromkeys(Metrics.__dataclass_fields__, 1) | {"stage_seconds": {"apply": 1.0}}
    stopped = [StoppedTable("shop.orders", "why", "what to do", PLACE)]
    text = render(Server(HeldBack(numbers=every, stopped=stopped, quarantined={"shop.orders": 2})), traffic)
    names = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
    return names | {f"sluice_monitor_{name}" for name, _ in METRICS}


class HeldBack(Destination):
    """Its store is full."""

    def client(self, client_id: int) -> Any:
        return replace(super().client(client_id), holds_back_seconds=61.0)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_exists(expression: str, rendered: set[str]) -> None:
    """A metric that is renamed or gone breaks no panel and no alert unseen."""
    assert names_in(expression) or expression.removeprefix("sum(").startswith("up{")
    assert names_in(expression) <= rendered


def test_the_dashboard_fits_the_schema() -> None:
    """Each panel has a title, a description, a unit, and a query with a data source that can be chosen."""
    jsonschema.validate(DASHBOARD, SCHEMA)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_no_two_panels_overlap() -> None:
    """Each place of the grid, which is 24 wide, has one panel."""
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in itertools.combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)


def test_every_alert_has_its_page() -> None:
    """Each alert says how grave it is and what to do, and docs/monitoring.md has it with the same words."""
    page = (ROOT / "docs" / "monitoring.md").read_text()
    plain = " ".join(page.split())
    assert re.findall(r"^### (\w+)$", page, re.MULTILINE) == [alert["alert"] for alert in ALERTS]
    for alert in ALERTS:
        notes = alert["annotations"]
        assert alert["labels"]["severity"] in ("critical", "warning", "info")
        assert notes["page"] == f"docs/monitoring.md#{alert['alert'].lower()}"
        for text in (f"`{alert['expr']}`", notes["description"], notes["runbook"]):
            assert text in plain, text


def test_every_alert_has_its_case() -> None:
    """rules_test.yaml has a case for each alert."""
    cases = yaml.safe_load((RULES / "rules_test.yaml").read_text())["tests"]
    assert {alert["alert"] for alert in ALERTS} <= {case["name"] for case in cases}


@pytest.fixture
def tool() -> None:
    try:
        promtool("--version")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.full
@pytest.mark.usefixtures("tool")
@pytest.mark.parametrize(
    "words", ["check rules rules.yaml", "check config prometheus.yaml", "test rules rules_test.yaml"]
)
def test_promtool_accepts_the_files(words: str) -> None:
    """The rules and the example are valid, and each alert fires where it should."""
    *command, file = words.split()
    done = promtool(*command, RULES / file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def service(tmp_path: Path, mysql8: MySqlServer) -> Iterator[Service]:
    """A service that captures a database of its own."""
    with mysql8.database() as database:
        port = free_port()
        conf = configure(tmp_path, mysql8, database, "")
        text = f"canal.metrics.pull.port = {port}\nsluice.flight.port = {free_port()}\ncanal.port = {free_port()}\n"
        (conf / "canal.properties").write_text(text)
        with Service(conf, tmp_path, http_port=port) as service:
            yield service


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.integration
@pytest.mark.usefixtures("tool")
def test_prometheus_scrapes_a_service_and_alerts(tmp_path: Path, service: Service) -> None:
    """With the example's configuration: all rules are healthy, and a table that is stopped fires its alert alone."""
    for file in RULES.glob("*.yaml"):
        shutil.copy(file, tmp_path)
    config = tmp_path / "prometheus.yaml"
    text = config.read_text().replace("127.0.0.1:11112", service.url.removeprefix("http://"))
    config.write_text(re.sub(r"(_interval: )15s", r"\g<1>1s", text))
    stop = {"reason": "a column changed", "hint": "Copy it.", "position": PLACE.to_dict()}
    clients = f"{service.url}/v1/destinations/shop/clients/1001"
    httpx.put(f"{clients}/stopped/shop.orders", json=stop).raise_for_status()

    with Prometheus(config, tmp_path) as prometheus:

        def ask(path: str, **query: str) -> Any:
            return httpx.get(f"{prometheus.url}/api/v1/{path}", params=query).raise_for_status().json()["data"]

        def firing() -> list[Any]:
            return [alert for alert in ask("alerts")["alerts"] if alert["state"] == "firing"]

        (alert,) = until(firing, 60)
        rules = ask("rules")["groups"][0]["rules"]
        named = ask("query", query="sluice_stopped_table")["result"]

    assert (alert["labels"]["alertname"], alert["labels"]["destination"]) == ("SluiceTablesStopped", "shop")
    assert alert["annotations"]["summary"] == "1 tables of shop are stopped"
    assert [(rule["name"], rule["health"]) for rule in rules] == [(one["alert"], "ok") for one in ALERTS]
    assert [one["metric"]["table"] for one in named] == ["shop.orders"]
