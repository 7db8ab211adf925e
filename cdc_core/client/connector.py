"""A client's connector: claim, ack, renew and roll back over HTTP, as Canal's `CanalConnector`.

`with connector.claim(...) as claim:` renews the lease while the block runs, acks when the block ends, and rolls back
when an exception ends it. A claim that the service has lost meanwhile is never acked: leaving the block raises. `calls`
makes the calls, again or at another server where that is safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote, urlsplit

import pyarrow as pa

from cdc_core.client.calls import Calls
from cdc_core.client.changes import RowsDoor, changes
from cdc_core.client.finder import Finder
from cdc_core.client.lease import Lease
from cdc_core.client.operator_calls import OperatorCalls
from cdc_core.client.snapshot_calls import SnapshotCalls
from cdc_core.client.trust import Trust
from cdc_core.contract.claim import Claim
from cdc_core.contract.client_status import ClientStatus
from cdc_core.contract.doors import Doors
from cdc_core.contract.quarantined_tables import MOST_TABLES, bounded
from cdc_core.contract.status import Status
from cdc_core.contract.stopped_table import BLOCKED, StopKind, StoppedTable, blocked_tables
from cdc_core.errors import ConfigError, CursorError, RunsElsewhere, ServiceUnavailable, SluiceError
from cdc_core.position import EntryPosition
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.table import TableSchema

MAX_WAIT = 60.0  # the longest that one claim call may wait


class Connector:
    """One client of one destination: at `http_url`, or with `zk_servers` (`host:port,host:port/chroot`) at whichever
    server runs it, if `trust` lets that one have the token. Several threads may use it. `snapshots` are the calls of
    who reads tables meanwhile, `by_hand` those of an operator."""

    def __init__(
        self,
        http_url: str | None,
        destination: str,
        *,
        flight_url: str | None = None,
        zk_servers: str = "",
        zk_auth: str = "",
        client_id: int = 1001,
        token: str | None = None,
        trust: Trust | None = None,
        timeout_seconds: float = 30.0,
        follow_seconds: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.destination = destination
        self.client_id = client_id
        self._token, self._trust = token, trust or Trust()
        self._timeout = timeout_seconds
        self._calls = Calls(
            None if zk_servers else _fixed(http_url, flight_url),
            Finder(zk_servers, destination, zk_auth, self._trust if token else None) if zk_servers else None,
            token=token,
            trust=self._trust,
            timeout_seconds=timeout_seconds,
            follow_seconds=follow_seconds,
            sleep=sleep,
        )
        self._call = self._calls.call
        self._home = f"/v1/destinations/{quote(destination, safe='')}"
        self._client = f"{self._home}/clients/{client_id}"
        self.snapshots = SnapshotCalls(self._calls, self._client)
        self.by_hand = OperatorCalls(self._calls, self._home)
        self._place = zk_servers or http_url

    def __repr__(self) -> str:
        return f"<Connector {self._place} {self.destination} client={self.client_id}>"

    @property
    def http_url(self) -> str:
        """Where calls go now."""
        return self._calls.doors.http

    @property
    def flight_url(self) -> str:
        """Where rows come from now."""
        return self._calls.doors.flight

    @property
    def rows_door(self) -> RowsDoor:
        """The Flight door of now, with what opens it."""
        return RowsDoor(self.flight_url, self._token or "", self.ca)

    @property
    def ca(self) -> str:
        """The authorities of the service's certificate as PEM text; "" for those of the system."""
        return self._trust.ca

    def close(self) -> None:
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_up(self, url: str) -> bool:
        """Whether the server with this HTTP door answers, whatever its destinations do."""
        try:
            self._calls.call_at(url, "GET", "/healthz", patience=self._timeout)
        except ServiceUnavailable:
            return False
        except SluiceError:  # an answer too
            return True
        return True

    def someone_is_up(self) -> bool:
        """Whether any server is alive, as ZooKeeper says; without ZooKeeper, whether the one at the address answers."""
        if not self._calls.follows:
            return self.is_up(self.http_url)
        try:
            return bool(self._calls.servers())
        except (CursorError, ServiceUnavailable):
            return False

    def status(self) -> Status:
        """The destination's state, as the service's page shows it."""
        return Status.from_dict(self._call("GET", self._home, accept=_runs if self._calls.follows else None))

    def statuses(self) -> dict[str, Status]:
        """The status of every destination, by name: of the server at the address, or of all that ZooKeeper names, where
        the one that runs it comes before those that stand by."""
        found: dict[str, Status] = {}
        for url in self._calls.servers():
            for fields in self._calls.call_at(url, "GET", "/v1/destinations", patience=self._timeout):
                status = Status.from_dict(fields)
                if status.state != "standby" or status.destination not in found:
                    found[status.destination] = status
        return found

    def tables(self) -> list[TableSchema]:
        return [TableSchema.from_dict(fields) for fields in self._call("GET", f"{self._home}/tables")]

    def not_captured(self, table: str, captured: Collection[str]) -> ConfigError:
        """The error about a table that is not among the captured ones."""
        known = sorted(captured)
        shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        hint = f"Name a captured table, or take it into the filter first. Captured: {shown or 'none'}."
        return ConfigError(f"{table} is not captured", place=self.destination, hint=hint)

    def client_status(self) -> ClientStatus:
        """This client's cursor, sequences, claims and stopped tables."""
        return ClientStatus.from_dict(self._call("GET", self._client))

    def missing(self, gtids: str) -> str:
        """Those of the GTIDs, a set as text, that the source has not executed; "" for none."""
        return str(self._call("POST", f"{self._home}/missing", {"gtid": gtids})["missing"])

    def subscribe(self) -> ClientStatus:
        """Makes this client known to the destination, from the newest transaction on. Repeating the call changes
        nothing."""
        return ClientStatus.from_dict(self._call("PUT", self._client))

    def rules(self) -> Rules:
        """What this client's lake sees of the tables, as the service keeps it."""
        if not self.client_status().rules:
            return NO_RULES  # also of a service that does not know rules
        return Rules.from_json(self._call("GET", f"{self._client}/rules")["rules"])

    def set_rules(self, rules: Rules) -> None:
        """Has this client's lake see the tables by these rules from its next claim on. Raises ConfigError for rules
        that the service cannot apply, such as a salt that is missing there."""
        self._call("PUT", f"{self._client}/rules", {"rules": rules.to_json()})

    def unsubscribe(self) -> None:
        """Forgets this client and its cursor. Raises SessionError for a client that the destination has configured."""
        self._call("DELETE", self._client)

    def get_without_ack(
        self, batch_size: int, *, owner: str, timeout_seconds: float = 0.0, lease_seconds: float | None = None
    ) -> Claim | None:
        """The next range of about `batch_size` rows at most; None when none comes in time, a minute at most. Raises
        ConfigError where the service cannot apply the client's rules."""
        timeout_seconds = min(timeout_seconds, MAX_WAIT)
        body = {
            "batch_size": batch_size,
            "timeout_seconds": timeout_seconds,
            "owner": owner,
            "lease_seconds": lease_seconds,
        }
        patience = self._timeout + timeout_seconds
        answer = self._call("POST", f"{self._client}/claims", body, repeat=False, patience=patience)
        return None if answer is None else Claim.from_dict(answer)

    def ack(self, claim: Claim, mended: Collection[str] = ()) -> EntryPosition | None:
        """Acks the claim. Returns the cursor after it, None while there is none. Repeating the call changes nothing.
        `mended`: stopped tables that the lake has as they are at the claim's end; their stop ends with the ack."""
        body = {"owner": claim.owner} | ({"mended": sorted(mended)} if mended else {})
        cursor = self._call("POST", self._batch(claim, "ack"), body)["cursor"]
        return None if cursor is None else EntryPosition.from_dict(cursor)

    def renew(self, claim: Claim, lease_seconds: float | None = None) -> float:
        """Renews the lease. Returns its new deadline in seconds since the epoch."""
        body = {"owner": claim.owner, "lease_seconds": lease_seconds}
        return float(self._call("POST", self._batch(claim, "renew"), body)["lease_deadline"])

    def rollback(self, claim: Claim | None = None, *, owner: str | None = None, reason: str) -> list[int]:
        """Rolls back the claim and all later ones; without a claim all, or all of `owner`. Returns their batch ids."""
        path = f"{self._client}/rollback" if claim is None else self._batch(claim, "rollback")
        body = {"owner": owner if claim is None else claim.owner, "reason": reason}
        return [int(batch_id) for batch_id in self._call("POST", path, body)["rolled_back"]]

    def stop_table(
        self,
        table: str,
        *,
        reason: str,
        hint: str,
        position: EntryPosition,
        copy_needed: bool = False,
        kind: StopKind = "stopped",
    ) -> None:
        """Notes with the cursor that `table` takes no more changes from `position` on. `copy_needed`: its rows in the
        lake are wrong, and only a copy lifts the stop. `kind`: "blocked" if its rows break what is expected of them."""
        body = {"reason": reason, "hint": hint, "position": position.to_dict(), "copy_needed": copy_needed}
        body |= {"kind": kind} if kind == BLOCKED else {}  # an older service refuses what it does not know
        self._call("PUT", f"{self._client}/stopped/{quote(table, safe='')}", body)

    def lift_stop(self, table: str, *, copied: EntryPosition | None = None, owner: str | None = None) -> None:
        """Lets `table` take changes again. `copied`: the position at which it was reloaded from the source. `owner`
        says that it gives its claims back afterwards.

        Raises SessionError when changes were acked while it was stopped that no copy has, or are claimed at the moment.
        """
        body = {"copied": copied.to_dict() if copied else None, "owner": owner}
        self._call("DELETE", f"{self._client}/stopped/{quote(table, safe='')}", body)

    def report_quarantined(self, rows: Mapping[str, int], *, whole: bool = False) -> None:
        """Has the service show how many rows of these tables wait in their quarantines, 0 for none. `whole`: no row of
        any other table does."""
        if whole:
            self._report_quarantined(bounded(rows), whole=True)
            return
        counts = sorted(rows.items())
        for at in range(0, len(counts), MOST_TABLES):
            self._report_quarantined(dict(counts[at : at + MOST_TABLES]), whole=False)

    def _report_quarantined(self, rows: Mapping[str, int], *, whole: bool) -> None:
        self._call("PUT", f"{self._client}/quarantined", {"rows": dict(rows), "whole": whole})

    def report_blocked(self, tables: Iterable[StoppedTable]) -> None:
        """Has the service show which tables' change logs wait, as rows break what is expected of them: no others do."""
        found = [{"table": one.table, "reason": one.reason, "hint": one.hint} for one in blocked_tables(tables)]
        self._call("PUT", f"{self._client}/blocked", {"tables": found})

    def changes(
        self, claim: Claim, table: str, *, mode: str = "net", after: int | None = None, splits: int = 1
    ) -> pa.RecordBatchReader:
        """All rows of a table in the claim, over Flight."""
        there, token = self.flight_url, self._token
        return changes(there, claim, table, mode=mode, after=after, splits=splits, token=token, ca=self.ca)

    @contextmanager
    def claim(
        self,
        batch_size: int,
        *,
        owner: str,
        timeout_seconds: float = 0.0,
        lease_seconds: float = 60.0,
        mended: Collection[str] = (),
    ) -> Iterator[Claim | None]:
        """A claim for the length of the block: its end acks the claim, an exception rolls it back and propagates.
        `mended` is read by the ack: the block may add to it."""
        claim = self.get_without_ack(
            batch_size, owner=owner, timeout_seconds=timeout_seconds, lease_seconds=lease_seconds
        )
        if claim is None:
            yield None
            return
        with Lease(claim, lease_seconds, self.renew) as lease:
            try:
                yield claim
                lease.check()
                self.ack(claim, mended)
            except BaseException as error:
                self._give_back(claim, error)
                raise

    def _give_back(self, claim: Claim, error: BaseException) -> None:
        """Rolls the claim back; a claim that cannot be rolled back ends with its lease. The block's own exception stays
        the one that is raised. A claim whose ack failed is rolled back too, or it would block the next one; if the
        service has acked it all the same, the rollback changes nothing."""
        try:
            self.rollback(claim, reason=f"{type(error).__name__}: {error}"[:500])
        except SluiceError as failed:
            error.add_note(f"Batch {claim.batch_id} was not rolled back ({failed}); it is free when its lease ends.")

    def _batch(self, claim: Claim, verb: str) -> str:
        return f"{self._client}/claims/{claim.batch_id}/{verb}"


def _fixed(http_url: str | None, flight_url: str | None) -> Doors:
    if http_url is None:
        raise ConfigError(
            "neither http_url nor zk_servers is set", hint="Give the service's HTTP address, or ZooKeeper's."
        )
    url = http_url.rstrip("/")
    return Doors(url, flight_url or beside(url))


def _runs(status: dict[str, Any]) -> None:
    """Refuses a standby's status: a connector that follows the active server wants the active one's."""
    if status["state"] == "standby":
        raise RunsElsewhere(
            "this server is on standby", place=str(status["active"]["address"]), hint="Call the active server."
        )


def beside(http_url: str) -> str:
    """Return the Flight address of the service at `http_url`: the next port."""
    parts = urlsplit(http_url)
    if parts.scheme not in ("http", "https") or parts.port is None:
        raise ConfigError(
            "this is not the address of an HTTP door",
            place=http_url,
            hint="Give it with its port: http://127.0.0.1:11112",
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"grpc{'+tls' if parts.scheme == 'https' else ''}://{host}:{parts.port + 1}"
