"""The control side of a client: claim, ack, renew, rollback over HTTP.

`with connector.claim(...) as claim:` keeps the lease while the block runs, acks when it is left, and rolls back when
it is left by an exception. The service is the truth: a claim that was lost meanwhile makes leaving the block fail,
and is never acked. How a call is made, made again, or made elsewhere is `calls`'.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote, urlsplit

import pyarrow as pa

from cdc_core.client.calls import Calls
from cdc_core.client.changes import changes
from cdc_core.client.finder import Finder
from cdc_core.errors import ConfigError, RunsElsewhere, SessionError, SluiceError
from cdc_core.ha.doors import Doors
from cdc_core.position import EntryPosition
from cdc_core.schema.table import TableSchema
from cdc_core.session.claim import Claim

MAX_WAIT = 60.0  # what the service grants to one claim call
_LEAVE_SECONDS = 1.0  # for a renewal that is under way when the block is left


class Connector:
    """One client of one destination: at `http_url`, or with `zk_servers` (`host:port,host:port/chroot`) wherever it
    runs at the time. Safe to use from several threads."""

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
        timeout_seconds: float = 30.0,
        follow_seconds: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.destination = destination
        self.client_id = client_id
        self._token = token
        self._timeout = timeout_seconds
        self._calls = Calls(
            None if zk_servers else _fixed(http_url, flight_url),
            Finder(zk_servers, destination, zk_auth) if zk_servers else None,
            token=token,
            timeout_seconds=timeout_seconds,
            follow_seconds=follow_seconds,
            sleep=sleep,
        )
        self._call = self._calls.call
        self._home = f"/v1/destinations/{quote(destination, safe='')}"
        self._client = f"{self._home}/clients/{client_id}"
        self._place = zk_servers or http_url

    def __repr__(self) -> str:
        return f"<Connector {self._place} {self.destination} client={self.client_id}>"

    @property
    def http_url(self) -> str:
        """Where calls go at present."""
        return self._calls.doors.http

    @property
    def flight_url(self) -> str:
        """Where rows come from at present."""
        return self._calls.doors.flight

    def close(self) -> None:
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def status(self) -> dict[str, Any]:
        """The destination's state, as the status page shows it."""
        return dict(self._call("GET", self._home, accept=_runs if self._calls.follows else None))

    def tables(self) -> list[TableSchema]:
        return [TableSchema.from_dict(fields) for fields in self._call("GET", f"{self._home}/tables")]

    def client_state(self) -> dict[str, Any]:
        """This client's cursor, sequences, claims and stopped tables."""
        return dict(self._call("GET", self._client))

    def get_without_ack(
        self, batch_size: int, *, owner: str, timeout_seconds: float = 0.0, lease_seconds: float | None = None
    ) -> Claim | None:
        """The next range of at most about `batch_size` rows, or None when there is none within the time.

        Waits for a minute at most.
        """
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

    def ack(self, claim: Claim) -> EntryPosition | None:
        """Confirms the claim; the cursor after it, or None when there is none yet. Repeating it changes nothing."""
        cursor = self._call("POST", self._batch(claim, "ack"), {"owner": claim.owner})["cursor"]
        return None if cursor is None else EntryPosition.from_dict(cursor)

    def renew(self, claim: Claim, lease_seconds: float | None = None) -> float:
        """Prolongs the lease; the new deadline in seconds since the epoch."""
        body = {"owner": claim.owner, "lease_seconds": lease_seconds}
        return float(self._call("POST", self._batch(claim, "renew"), body)["lease_deadline"])

    def rollback(self, claim: Claim | None = None, *, owner: str | None = None, reason: str) -> list[int]:
        """Gives back the claim and all later ones; without a claim all, or all of `owner`. The ids given back."""
        path = f"{self._client}/rollback" if claim is None else self._batch(claim, "rollback")
        body = {"owner": owner if claim is None else claim.owner, "reason": reason}
        return [int(batch_id) for batch_id in self._call("POST", path, body)["rolled_back"]]

    def stop_table(self, table: str, *, reason: str, hint: str, position: EntryPosition) -> None:
        """Notes beside the cursor that `table` takes no more changes from `position` on."""
        body = {"reason": reason, "hint": hint, "position": position.to_dict()}
        self._call("PUT", f"{self._client}/stopped/{quote(table, safe='')}", body)

    def resume_table(self, table: str) -> None:
        self._call("DELETE", f"{self._client}/stopped/{quote(table, safe='')}")

    def changes(
        self, claim: Claim, table: str, *, mode: str = "net", after: int | None = None, splits: int = 1
    ) -> pa.RecordBatchReader:
        """A table's rows in the claim, over Flight."""
        return changes(self.flight_url, claim, table, mode=mode, after=after, splits=splits, token=self._token)

    @contextmanager
    def claim(
        self, batch_size: int, *, owner: str, timeout_seconds: float = 0.0, lease_seconds: float = 60.0
    ) -> Iterator[Claim | None]:
        """Claims for the length of the block: leaving it acks, an exception rolls back and goes on its way."""
        claim = self.get_without_ack(
            batch_size, owner=owner, timeout_seconds=timeout_seconds, lease_seconds=lease_seconds
        )
        if claim is None:
            yield None
            return
        with _Lease(self, claim, lease_seconds) as lease:
            try:
                yield claim
                lease.check()
                self.ack(claim)
            except BaseException as error:
                self._give_back(claim, error)
                raise

    def _give_back(self, claim: Claim, error: BaseException) -> None:
        """The block's own exception stays the one that is told; the lease ends what cannot be given back. A claim
        whose ack failed goes back too: it would stand before the next one. If it was acked all the same, this is
        nothing."""
        try:
            self.rollback(claim, reason=f"{type(error).__name__}: {error}"[:500])
        except SluiceError as failed:
            error.add_note(f"Batch {claim.batch_id} was not given back ({failed}); its lease will end.")

    def _batch(self, claim: Claim, verb: str) -> str:
        return f"{self._client}/claims/{claim.batch_id}/{verb}"


class _Lease:
    """Renews a claim at a third of its lease, in a thread, until left. A refusal is kept for `check`."""

    def __init__(self, connector: Connector, claim: Claim, seconds: float) -> None:
        self._connector = connector
        self._claim = claim
        self._seconds = seconds
        self._left = threading.Event()
        self._refusal: SluiceError | None = None
        self._thread = threading.Thread(target=self._run, name=f"lease of {claim.batch_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join(_LEAVE_SECONDS)

    def check(self) -> None:
        """Raises when the service said that the claim is ours no more."""
        if self._refusal is not None:
            raise SessionError(
                f"the claim was lost while it was worked on: {self._refusal.message}",
                place=f"{self._claim.destination}, batch {self._claim.batch_id}",
                hint="Nothing was acked; the range will be claimed again. Give a longer lease if the machine stalls.",
            ) from self._refusal

    def _run(self) -> None:
        while not self._left.wait(self._seconds / 3):
            try:
                self._connector.renew(self._claim, self._seconds)
            except SessionError as refusal:
                self._refusal = refusal
                return
            except SluiceError:
                continue  # away for now; whether the lease outlived it, the next renewal or the ack will tell


def _fixed(http_url: str | None, flight_url: str | None) -> Doors:
    if http_url is None:
        raise ConfigError("neither an address nor zk_servers", hint="Give the service's HTTP door, or ZooKeeper.")
    url = http_url.rstrip("/")
    return Doors(url, flight_url or beside(url))


def _runs(status: dict[str, Any]) -> None:
    """A standby tells its own state too; who follows does not want it."""
    if status["state"] == "standby":
        raise RunsElsewhere("a standby", place=str(status["active"]["address"]), hint="Call the active server.")


def beside(http_url: str) -> str:
    """The Flight door of a service whose HTTP door is at `http_url`: the next port."""
    parts = urlsplit(http_url)
    if parts.scheme not in ("http", "https") or parts.port is None:
        raise ConfigError(
            "not the address of an HTTP door", place=http_url, hint="Give it with its port: http://127.0.0.1:11112"
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"grpc://{host}:{parts.port + 1}"
