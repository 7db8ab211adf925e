"""Bodies of the HTTP requests, as the OpenAPI document shows them. Unknown fields are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from cdc_core.contract.quarantined_tables import MOST_TABLES
from cdc_core.contract.stopped_table import MOST_BLOCKED, MOST_TEXT, StopKind

TableName = Annotated[str, Field(min_length=1, max_length=300)]
Rows = Annotated[int, Field(ge=0, lt=1 << 53)]

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
    batch_size: int = Field(ge=1, description="the number of rows, about", examples=[10000])
    timeout_seconds: float = Field(0.0, ge=0, le=MAX_WAIT, description="how long to wait for rows", examples=[5])
    owner: str = Field(min_length=1, max_length=200, description="who claims, e.g. a run's id", examples=["run-1"])
    lease_seconds: float | None = Field(
        None, gt=0, le=86400, description="default: sluice.lease.seconds", examples=[60]
    )


class RulesRequest(Request):
    rules: str = Field(max_length=1 << 20, description="what the client's lake sees of its tables, as JSON text")


class QuarantinedRequest(Request):
    rows: dict[TableName, Rows] = Field(
        max_length=MOST_TABLES,
        description="how many rows wait, by table; 0 for none",
        examples=[{"shop.orders": 2}],
    )
    whole: bool = Field(False, description="no row of any other table waits")


class BlockedTable(Request):
    table: TableName = Field(examples=["shop.orders"])
    reason: str = Field(min_length=1, max_length=MOST_TEXT, examples=["2 rows break not_null_customer_id"])
    hint: str = Field("", max_length=MOST_TEXT, examples=["Correct the rows at the source."])


class BlockedRequest(Request):
    tables: list[BlockedTable] = Field(
        max_length=MOST_BLOCKED, description="all tables whose change logs wait, as rows break what is expected of them"
    )


class OfOwner(Request):
    owner: str = Field(min_length=1, examples=["run-1"])


class AckRequest(OfOwner):
    mended: list[str] = Field(
        [], description="stopped tables that a statement of the claim repaired: their stop ends with the ack"
    )


class RenewRequest(OfOwner):
    lease_seconds: float | None = Field(None, gt=0, le=86400, examples=[60])


class RollbackRequest(Request):
    owner: str | None = Field(None, description="null: whichever owner holds it", examples=["run-1"])
    reason: str = Field(min_length=1, max_length=2000, examples=["merge failed"])


class StopRequest(Request):
    reason: str = Field(min_length=1, max_length=2000, examples=["column `qty` became VARCHAR"])
    hint: str = Field("", max_length=2000, examples=["Rebuild the table, then resume it."])
    position: Position
    copy_needed: bool = Field(False, description="the lake's rows are wrong: only a copy of the table lifts the stop")
    kind: StopKind = Field("stopped", description="blocked: its rows break what is expected of them")


class LiftRequest(Request):
    copied: Position | None = Field(None, description="where the table was reloaded from the source; null: it was not")
    owner: str | None = Field(None, description="whose outstanding claims do not count: it will give them back")


class OpenSnapshotRequest(AckRequest):
    lease_seconds: float = Field(60.0, gt=0, le=86400, description="without a renewal by the owner", examples=[60])
    first: bool = Field(
        False, description="the lake has no such table: it is stopped until its snapshot is in the lake"
    )


class SnapshotProgress(Request):
    """How far the reading is."""

    low: Position | None = Field(None, description="the rows have every transaction up to there")
    high: Position | None = Field(None, description="the rows have no transaction after it")
    definition: str = Field("", description="the version of the table's definition", examples=["9f86d081884c7d65"])
    groups: int = Field(0, ge=0, description="groups of chunks that are staged", examples=[3])
    of_groups: int | None = Field(None, ge=0, description="of about how many; null: unknown", examples=[40])
    behind: str = Field("", max_length=100_000, description="the reader's note of where the next group begins")


class NoteSnapshotRequest(AckRequest):
    id: str = Field(min_length=1, examples=["5f1c0d3a9b7e4c21"])
    lease_seconds: float = Field(60.0, gt=0, le=86400, examples=[60])
    progress: SnapshotProgress | None = Field(None, description="null: only the lease is renewed")


class BreakSnapshotRequest(Request):
    id: str = Field(min_length=1, examples=["5f1c0d3a9b7e4c21"])
    reason: str = Field(min_length=1, max_length=2000, examples=["row images leave columns out"])


class CloseSnapshotRequest(Request):
    id: str | None = Field(None, description="null: whichever is open")
    owner: str | None = Field(None, description="who has put it into the lake; null: it is cancelled")


class GtidPlace(Request):
    """The first transaction that the set lacks."""

    gtid: str = Field(examples=["3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"])


class MissingRequest(GtidPlace):
    """Which of these GTIDs the source lacks."""


class ResetRequest(Request):
    to: Literal["earliest", "latest", "anew"] | int | Position | GtidPlace = Field(
        description="anew: the source's end, and all captured tables stop until they are reloaded; "
        "a number: the first transaction of that second, or the last before it, in milliseconds since the epoch; "
        "a GTID set: the first transaction that the set lacks",
        examples=["earliest"],
    )
    client_id: int | None = Field(None, ge=0, description="null: all clients", examples=[1001])
    moved: bool = Field(False, description="the source is not the server that the cursors belong to")
    epoch: int = Field(0, ge=0, lt=1 << 31, description="the new epoch is at least this one", examples=[0])
    identity: str = Field("", pattern="^[0-9a-f]{0,32}$", description="the destination takes over this identity")
    of_epoch: int | None = Field(
        None, ge=0, description="`to` was a position in this epoch; refused when it was another server's"
    )
    dry_run: bool = Field(True, description="false: set the cursors")
