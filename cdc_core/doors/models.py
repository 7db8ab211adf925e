"""Bodies of the HTTP calls, as the OpenAPI document shows them. Unknown fields in a request are refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

MAX_WAIT = 60.0  # seconds that one claim call may wait

POSITION: dict[str, JsonValue] = {
    "gtid": "",
    "included": False,
    "journalName": "mysql-bin.000003",
    "position": 1547,
    "serverId": 1,
    "timestamp": 1700000000000,
}


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class Position(Request):
    """A place in the binlog, in Canal's field names."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [POSITION]})

    journalName: str  # noqa: N815
    position: int = Field(ge=0)
    timestamp: int | None = Field(None, description="milliseconds since the epoch")
    serverId: int | None = None  # noqa: N815
    gtid: str = ""
    included: bool = False


class ClaimRequest(Request):
    batch_size: int = Field(ge=1, description="about how many rows", examples=[10000])
    timeout_seconds: float = Field(0.0, ge=0, le=MAX_WAIT, description="how long to wait for rows", examples=[5])
    owner: str = Field(min_length=1, max_length=200, description="who claims, e.g. a run's id", examples=["run-1"])
    lease_seconds: float | None = Field(
        None, gt=0, le=86400, description="default: sluice.lease.seconds", examples=[60]
    )


class AckRequest(Request):
    owner: str = Field(min_length=1, examples=["run-1"])


class RenewRequest(AckRequest):
    lease_seconds: float | None = Field(None, gt=0, le=86400, examples=[60])


class RollbackRequest(Request):
    owner: str | None = Field(None, description="null: whoever holds it", examples=["run-1"])
    reason: str = Field(min_length=1, max_length=2000, examples=["merge failed"])


class StopRequest(Request):
    reason: str = Field(min_length=1, max_length=2000, examples=["column `qty` became VARCHAR"])
    hint: str = Field("", max_length=2000, examples=["Rebuild the table, then resume it."])
    position: Position


class Failure(Answer):
    """What is wrong, where, and what mends it."""

    error: str = Field(examples=["SessionError"])
    message: str = Field(examples=["batch 7 is not outstanding"])
    place: str = Field(examples=["shop/1001"])
    hint: str = Field(examples=["Claim again."])


class Destination(Answer):
    destination: str = Field(examples=["shop"])
    state: str = Field(description="starting, running, standby, failed, stopped or lazy", examples=["running"])
    source: dict[str, Any] = Field(
        description="the server that is read; role: master or standby; failed_heartbeats in a row, null where "
        "detecting is off; switched: from, to, why and when of the last switch",
        examples=[
            {"address": "127.0.0.1:3306", "version": "8.0.31", "server_id": 1, "connected": True, "role": "master"}
        ],
    )
    start: dict[str, Any] | None = Field(
        None, description="by which rule reading began: rule, looked_at, chosen, seconds"
    )
    binlog: dict[str, Any] | None = Field(None, description="how far the cursors are from being purged")
    position: Position | None
    store: dict[str, Any] = Field(
        examples=[
            {
                "put": 900,
                "get": 500,
                "ack": 400,
                "items": 500,
                "bytes": 65536,
                "capacity_items": 16384,
                "capacity_bytes": 16777216,
            }
        ]
    )
    lag_seconds: float | None = Field(examples=[0.4])
    backlog_rows: int = Field(examples=[400])
    clients: list[Any]
    error: dict[str, Any] | None = Field(examples=[None])
    note: str | None = Field(None, description="why it does not read on purpose", examples=[None])


class ClientPosition(Answer):
    """null for what is not known."""

    client_id: int = Field(examples=[1001])
    epoch: int = Field(examples=[0])
    cursor: Position | None
    purged: bool = Field(description="the cursor's journal is not at the source")
    bytes: int | None = Field(description="of binlog, from the cursor to the end", examples=[52311])
    transactions: int | None = Field(description="where GTIDs tell", examples=[12])
    seconds: float | None = Field(description="since the cursor's transaction, 0 at the end", examples=[2.5])
    files_left: int | None = Field(description="journals older than the cursor's", examples=[3])


class Positions(Answer):
    destination: str = Field(examples=["shop"])
    source: str = Field(examples=["127.0.0.1:3306"])
    end: Position
    oldest: str = Field(examples=["mysql-bin.000001"])
    files: int = Field(examples=[4])
    clients: list[ClientPosition]


class GtidPlace(Request):
    """The first transaction that a set lacks."""

    gtid: str = Field(examples=["3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"])


class ResetRequest(Request):
    to: Literal["earliest", "latest"] | int | Position | GtidPlace = Field(
        description="a number: the last transaction at or before it, in milliseconds since the epoch; "
        "a GTID set: the first transaction that it lacks",
        examples=["earliest"],
    )
    client_id: int | None = Field(None, ge=0, description="null: all clients", examples=[1001])
    moved: bool = Field(False, description="the source is another server than the one the cursors belong to")
    dry_run: bool = Field(True, description="false: do it")


class ClientReset(Answer):
    client_id: int = Field(examples=[1001])
    moved: bool
    again_bytes: int | None = Field(description="of binlog that is read again; null where it cannot be told")
    skipped_bytes: int | None = Field(description="of binlog that is not read any more")


class ResetAnswer(Answer):
    destination: str = Field(examples=["shop"])
    to: Position
    done: bool
    clients: list[ClientReset]


class TableColumns(Answer):
    """One version of a captured table's definition."""

    database: str = Field(examples=["shop"])
    table: str = Field(examples=["orders"])
    columns: list[dict[str, Any]]
    primary_key: list[str] = Field(examples=[["id"]])
    comment: str
    version: str = Field(examples=["9f86d081884c7d65"])


class Client(Answer):
    client_id: int = Field(examples=[1001])
    cursor: Position | None
    epoch: int = Field(examples=[1])
    backlog_rows: int
    backlog_bytes: int
    put: int
    get: int
    ack: int
    claims: list[dict[str, Any]]
    stopped: list[dict[str, Any]]
    rollbacks: int


class ClaimAnswer(Answer):
    """A range of rows, held under a lease until acked or rolled back."""

    destination: str = Field(examples=["shop"])
    client_id: int = Field(examples=[1001])
    batch_id: int = Field(examples=[7])
    start: Position
    end: Position
    tables: list[dict[str, Any]]
    transactions: int
    events: int
    nbytes: int
    execute_times: list[tuple[int, int]] = Field(description="(second, rows) of commits")
    epoch: int
    owner: str
    lease_deadline: float = Field(description="seconds since the epoch")
    partial: bool


class AckAnswer(Answer):
    cursor: Position | None


class RenewAnswer(Answer):
    lease_deadline: float = Field(examples=[1700000060.0])


class RollbackAnswer(Answer):
    rolled_back: list[int] = Field(examples=[[7, 8]])
