"""Each extra alone, without the packages of the others: what it promises works, and the rest names its extra."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cdc_core.packages import EXTRAS
from tests.support.extras import Environment

pytestmark = pytest.mark.full
ALONE = ["kafka", "rocketmq", "postgresql", "alerts"]
Make = Callable[[str], Environment]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes the environment of an extra."""
    return lambda extra: Environment(tmp_path_factory.mktemp("extra") / "env", extra)


def ran(environment: Environment, code: str, **variables: str) -> str:
    """What a program prints; it has to end well."""
    done = environment.run("-c", code, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


_IMPORTABLE = """
from importlib.util import find_spec
print(*sorted(name for name in {names} if find_spec(name)))
"""


@pytest.mark.parametrize("extra", ["", *ALONE, "spark", "dagster", "all"])
def test_an_extra_brings_its_packages_alone(make: Make, extra: str) -> None:
    """Without one none of them is there; `dagster` has those of `spark` and `alerts` too. RocketMQ's client is one of
    gRPC's."""
    extras = {"dagster": {"dagster", "spark", "alerts"}, "all": set(EXTRAS.values())}.get(extra, {extra})

    found = ran(make(extra), _IMPORTABLE.format(names=sorted(EXTRAS)))

    expected = {name for name, needs in EXTRAS.items() if needs in extras}
    assert set(found.split()) == expected | ({"grpc"} if extra == "rocketmq" else set())


def test_without_an_extra_a_command_names_the_one_that_it_needs(make: Make, tmp_path: Path) -> None:
    """`sluice init` works, and `sluice verify` says what to install."""
    alone = make("")
    given = ["--address", "db:3306", "--database", "shop", "--lake", tmp_path / "lake"]
    places = ["--conf", tmp_path / "conf", "--defs", tmp_path / "defs.yaml"]

    written = alone.run("-m", "orchestration", "init", *given, *places)
    refused = alone.run("-m", "orchestration", "verify", "--conf", tmp_path / "conf", "--lake", tmp_path / "lake")

    assert written.returncode == 0, written.stderr
    assert refused.returncode == 1
    assert "pip install 'sluice-cdc[spark]'" in refused.stderr


_KAFKA = """
from cdc_core.canal.queues.kafka import Producer, settings
producer = Producer(settings({"bootstrap.servers": "127.0.0.1:9"}))
print(producer.flush(0))
"""
_ROCKETMQ = "from cdc_core.canal.queues.rocketmq import _loaded; print(_loaded().__class__.__name__ != 'NoneType')"
_POSTGRESQL = """
from cdc_core.canal.mirror.postgresql.server import _driver
driver = _driver()
try:
    driver.connect("host=127.0.0.1 port=9 connect_timeout=2")
except driver.OperationalError as error:
    print("refused" in str(error))
"""


@pytest.mark.parametrize(
    ("extra", "code", "printed"),
    [("kafka", _KAFKA, "0"), ("rocketmq", _ROCKETMQ, "True"), ("postgresql", _POSTGRESQL, "True")],
)
def test_the_client_of_an_extra_is_loaded(make: Make, extra: str, code: str, printed: str) -> None:
    """With its native library, by what uses it in the service."""
    assert ran(make(extra), code) == printed


_ALERT = """
from types import SimpleNamespace
from orchestration.alerts.messages import Message
from orchestration.alerts.receivers import send
send(SimpleNamespace(url_env="HOOK", url_file="", name="hook"), Message(title="t", body="b", level="warning"))
"""


def test_alerts_are_sent_without_dagster(make: Make) -> None:
    """The monitor's alarms go to a web hook by apprise."""
    taken: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.handle_request, daemon=True).start()
        ran(make("alerts"), _ALERT, HOOK=f"json://127.0.0.1:{server.server_port}")

    assert b'"message": "b"' in taken[0]


def test_the_lake_is_looked_at_with_spark_alone(make: Make, tmp_path: Path) -> None:
    """`sluice check` writes into it by delta-rs, and the commands over the lake are there."""
    code = f"from spark_jobs.lake.tables import Lake; Lake({str(tmp_path)!r}).check_writable(); print('written')"

    assert ran(make("spark"), f"import orchestration.commands.sql\n{code}") == "written"


@pytest.mark.in_turn
def test_dagster_loads_the_component(make: Make) -> None:
    """And the code location of `workspace.yaml` can be imported."""
    code = "import dagster, orchestration.destination as one; print(issubclass(one.CdcDestination, dg.Component))"

    assert ran(make("dagster"), code.replace("dagster,", "dagster as dg,")) == "True"
