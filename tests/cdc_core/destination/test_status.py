"""A destination's status as JSON, and read back from it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cdc_core.contract.client_status import ClaimStatus, ClientStatus
from cdc_core.contract.expiry_report import ExpiryReport, Left
from cdc_core.contract.failover import Detected, Switch
from cdc_core.contract.reached import How, Reached
from cdc_core.contract.status import ActiveServer, ErrorReport, SourceStatus, StartReport, Status, StoreFigures
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.errors import DecodeError
from cdc_core.position import EntryPosition

AT = EntryPosition("mysql-bin.000003", 1547, 1_700_000_000_000, 1)
CLIENT = ClientStatus(
    client_id=1001,
    cursor=AT,
    reached=Reached(How.BATCH, 2, AT),
    epoch=2,
    backlog_rows=10,
    backlog_bytes=1000,
    put=9,
    get=5,
    ack=4,
    claims=(ClaimStatus(7, "run-1", 1_700_000_060.0, AT, AT, 10),),
    stopped=(StoppedTable("shop.orders", "column gone", "Rebuild it.", AT),),
    rollbacks=3,
    generation=1_700_000_000_000_003,
)
RUNNING = Status(
    "shop",
    "running",
    SourceStatus("db1:3306", "8.0.31", 1, True, Detected("standby", 0, 0, Switch("db0:3306", "db1:3306", "gone", 1.0))),
    start=StartReport("the last position", "cursor", AT, 0.02, "rows were lost"),
    binlog=ExpiryReport("mysql-bin.000001", 3600.0, {1001: Left(2, 300, None), 1002: None}, "soon"),
    position=AT,
    store=StoreFigures(9, 5, 4, 5, 65536, None, 16777216),
    lag_seconds=0.4,
    backlog_rows=10,
    clients=(CLIENT,),
    error=ErrorReport.of(DecodeError("damaged", place="mysql-bin.000003:4", hint="See the log."), 5.0),
)
STANDBY = Status("shop", "standby", SourceStatus("db1:3306"), active=ActiveServer("10.0.0.2:11111", None))
LAZY = Status("shop", "lazy", note="lazy: reads when a client first asks")


@pytest.mark.parametrize("status", [RUNNING, STANDBY, LAZY], ids=lambda status: status.state)
def test_a_status_survives_json(status: Status) -> None:
    """Every field comes back, and positions keep their time."""
    fields = json.loads(json.dumps(status.to_dict()))

    assert Status.from_dict(fields) == status
    assert Status.from_dict(fields).to_dict() == status.to_dict()


def test_fields_of_a_newer_service_are_ignored() -> None:
    """A client reads the status of a service that says more."""
    fields = RUNNING.to_dict() | {"weather": "fine"}
    fields["clients"] = [CLIENT.to_dict() | {"mood": "good"}]

    assert Status.from_dict(fields) == RUNNING


def test_the_json_that_callers_know() -> None:
    """Only a standby has `active`, only a chosen source has a role; a client has its rollbacks and their token."""
    assert "active" not in RUNNING.to_dict()
    assert STANDBY.to_dict()["active"] == {"address": "10.0.0.2:11111", "http": None}
    assert "role" not in LAZY.to_dict()["source"]
    assert RUNNING.to_dict()["source"]["switched"] == {"from": "db0:3306", "to": "db1:3306", "why": "gone", "at": 1.0}
    assert (CLIENT.to_dict()["rollbacks"], CLIENT.to_dict()["generation"]) == (3, 1_700_000_000_000_003)


def test_an_unexpected_error_is_a_bug() -> None:
    """Its class is the code, and the hint asks to report it."""
    report = ErrorReport.of(ZeroDivisionError())

    assert (report.error, report.message, report.since) == ("ZeroDivisionError", "an unexpected error", None)
    assert "bug" in report.hint
    assert report.same_as(ErrorReport.of(ZeroDivisionError(), 7.0))


def test_a_client_of_the_service_loads_no_source() -> None:
    """Commands and sensors start quickly: the values import neither numba nor a MySQL client."""
    code = "import sys, cdc_core.client.connector; print(sorted({'numba', 'pymysql'} & sys.modules.keys()))"

    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["[]"]
