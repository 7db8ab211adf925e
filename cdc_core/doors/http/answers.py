"""Bodies of the HTTP answers, as the OpenAPI document shows them. The values' `to_dict` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from cdc_core.doors.http.requests import Position


class Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


def large(value: Callable[[], Any]) -> JSONResponse:
    """The answer with a value of JSON that may be megabytes. It is made in the caller's thread and not validated by
    its model: other calls would wait for that."""
    return JSONResponse(value())


class Failure(Answer):
    """What is wrong, where, and what to do."""

    error: str = Field(examples=["SessionError"])
    message: str = Field(examples=["batch 7 is not outstanding"])
    place: str = Field(examples=["shop/1001"])
    hint: str = Field(examples=["Claim again."])


class DestinationAnswer(Answer):
    destination: str = Field(examples=["shop"])
    state: str = Field(description="starting, running, standby, failed, stopped or lazy", examples=["running"])
    source: dict[str, Any] = Field(
        description="the server that is read; role is master or standby; failed_heartbeats counts those in a row, null "
        "where detecting is off; switched is the last switch: from, to, why and at",
        examples=[
            {"address": "127.0.0.1:3306", "version": "8.0.31", "server_id": 1, "connected": True, "role": "master"}
        ],
    )
    start: dict[str, Any] | None = Field(None, description="how reading began: rule, looked_at, chosen, seconds, lost")
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
    stages: dict[str, float] = Field({}, description="where the seconds of the last minute went, by stage")
    note: str | None = Field(None, description="why the destination deliberately does not read", examples=[None])


class ClientPositionAnswer(Answer):
    """Unknown figures are null."""

    client_id: int = Field(examples=[1001])
    epoch: int = Field(examples=[0])
    cursor: Position | None
    purged: bool = Field(
        description="the source has purged the cursor's journal, and the store does not have it either"
    )
    bytes: int | None = Field(description="of binlog from the cursor to the end", examples=[52311])
    transactions: int | None = Field(description="known where the source has GTIDs", examples=[12])
    seconds: float | None = Field(description="since the cursor's transaction; 0 at the end", examples=[2.5])
    files_left: int | None = Field(description="journals older than the cursor's", examples=[3])
    kept: bool = Field(False, description="the store on disk has the changes after the cursor")


class PositionsAnswer(Answer):
    destination: str = Field(examples=["shop"])
    source: str = Field(examples=["127.0.0.1:3306"])
    end: Position
    oldest: str = Field(examples=["mysql-bin.000001"])
    files: int = Field(examples=[4])
    clients: list[ClientPositionAnswer]
    kept: Position | None = Field(default=None, description="where the store on disk begins")


class Missing(Answer):
    missing: str = Field(description="the GTIDs that the source has not executed; empty for none", examples=[""])


class ClientReset(Answer):
    client_id: int = Field(examples=[1001])
    moved: bool
    again_bytes: int | None = Field(description="of binlog that is read again; null where unknown")
    skipped_bytes: int | None = Field(description="of binlog that is skipped; null where unknown")


class ResetAnswer(Answer):
    destination: str = Field(examples=["shop"])
    to: Position
    done: bool
    clients: list[ClientReset]
    anew: list[str] = Field(examples=[["shop.orders"]], description="tables that stop until they are reloaded")


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
    snapshots: list[dict[str, Any]] = Field(description="tables that are read while the stream goes on")
    rules: str = Field(description="the fingerprint of what its lake sees of the tables; empty for all of them")
    quarantined: dict[str, int] = Field({}, description="how many rows wait in the quarantines of its tables")
    blocked: list[dict[str, Any]] = Field(
        [], description="tables whose change logs wait, as rows break what is expected of them"
    )
    configured: bool = Field(description="it is always subscribed")
    holds_back_seconds: float | None = Field(description="how long a full store has been waiting for its ack")
    rollbacks: int = Field(description="since the destination started", examples=[0])
    generation: int = Field(
        description="another number after every rollback and every start of the destination",
        examples=[1700000000000000],
    )
    backlog_ddl: int = Field(description="DDL statements that are not acked", examples=[0])


class SnapshotAnswer(Answer):
    """A table that is read while the stream goes on."""

    table: str = Field(examples=["shop.orders"])
    id: str = Field(examples=["5f1c0d3a9b7e4c21"])
    owner: str = Field(examples=["run-1"])
    lease_deadline: float = Field(description="seconds since the epoch")
    epoch: int = Field(examples=[1])
    low: Position | None
    high: Position | None
    groups: int = Field(description="groups of chunks that are staged", examples=[3])
    of_groups: int | None = Field(examples=[40])
    acked: Position | None = Field(description="the end of the last acked batch with changes of the table")
    broken: str = Field(description="why it cannot be finished; empty for one that can", examples=[""])


class ClaimAnswer(Answer):
    """A range of rows and DDL statements, leased until it is acked or rolled back."""

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
    moments: list[float | None] = Field(
        [],
        description="when its first row was received, decoded, stored and claimed, in seconds since the epoch",
    )
    ddl: list[dict[str, Any]] = Field(description="DDL statements, in order, before all rows of the range")


class RulesAnswer(Answer):
    rules: str = Field(description="what the client's lake sees of its tables, as JSON text; empty for all of them")


class AckAnswer(Answer):
    cursor: Position | None


class RenewAnswer(Answer):
    lease_deadline: float = Field(examples=[1700000060.0])


class RollbackAnswer(Answer):
    rolled_back: list[int] = Field(examples=[[7, 8]])
