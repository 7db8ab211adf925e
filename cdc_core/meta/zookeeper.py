"""Nodes in ZooKeeper. Each call waits for the ensemble's answer, or fails within seconds.

kazoo restores lost connections and sessions. A call made meanwhile fails with CursorError and may be repeated. A write
whose answer was lost may have been done; the versions that it names prevent it from being done late.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, Permissions, make_digest_acl_credential

from cdc_core.errors import CursorError, LeadershipLost
from cdc_core.meta.nodes import Change, Node, conflict

_CALL_SECONDS = 10.0
_MOST_BYTES = 1_000_000  # in one request: jute.maxbuffer is 1,048,575 where nobody sets it
_OVERHEAD = 128  # bytes that a node adds to a request: its header, version and access list
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0}


class ZookeeperNodes:
    """One connection for all destinations. `hosts` is `host:port,host:port/chroot`; `auth` is `user:password`."""

    def __init__(
        self, hosts: str, auth: str = "", session_seconds: float = 10.0, connect_seconds: float = 10.0
    ) -> None:
        self._hosts = hosts
        self._account = make_digest_acl_credential(*auth.split(":", 1)) if ":" in auth else ""
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_seconds,
            connection_retry=_RECONNECT,
            auth_data=[("digest", auth)] if auth else None,
            default_acl=CREATOR_ALL_ACL if auth else None,
        )
        self._client.start_async().wait(connect_seconds)

    def __repr__(self) -> str:
        return f"<ZookeeperNodes {self._hosts} {self._client.state}>"

    def place(self, path: str) -> str:
        return f"{self._client.chroot}{path}"

    def read(self, path: str) -> Node | None:
        try:
            value, stat = self.call(path, lambda: self._client.get_async(path))
        except NoNodeError:
            return None
        return Node(value, stat.version)

    @property
    def client(self) -> KazooClient:
        """The connection itself, for sessions, watches and ephemeral nodes."""
        return self._client

    def write(self, changes: Mapping[str, Change], checks: Mapping[str, int] | None = None) -> None:
        """Makes all changes or none. Raises LeadershipLost when a node of `checks` has another version."""
        checks = checks or {}
        if not checks and not changes:
            return
        self._check_size(changes)
        made = (path for path, change in changes.items() if change.version is None and change.value is not None)
        for parent in sorted({path.rpartition("/")[0] for path in made}):
            self.call(parent, lambda parent=parent: self._client.ensure_path_async(parent))  # type: ignore[misc]
        request = self._client.transaction()
        for path, version in checks.items():
            request.check(path, version)
        for path, change in changes.items():
            _add(request, path, change)
        results = self.call(next(iter(changes or checks)), request.commit_async)
        self._raise_unless_leader(checks, results)
        results = results[len(checks) :]
        for path, result in zip(changes, results, strict=True):
            if isinstance(result, BadVersionError | NodeExistsError | NoNodeError):
                raise conflict(self.place(path))
        for path, result in zip(changes, results, strict=True):
            if isinstance(result, Exception):
                raise self.away(path, result)

    def _check_size(self, changes: Mapping[str, Change]) -> None:
        """ZooKeeper answers a request that is too large by ending the connection, which all destinations share."""
        sizes = {path: len(self.place(path).encode()) + len(change.value or b"") for path, change in changes.items()}
        total = sum(sizes.values()) + _OVERHEAD * len(sizes)
        if total > _MOST_BYTES:
            largest = max(sizes, key=lambda path: sizes[path])
            raise CursorError(
                f"nothing was written: {len(sizes)} nodes of {total:,} bytes are more than ZooKeeper takes in one "
                f"request, {_MOST_BYTES:,} bytes; the largest has {sizes[largest]:,}",
                place=self.place(largest),
                hint="The limit is that of jute.maxbuffer's default. Make the value smaller: a shorter filter; for a "
                "cursor, a source whose set of GTIDs names fewer servers, or canal.instance.gtidon = false.",
            )

    def _raise_unless_leader(self, checks: Mapping[str, int], results: list[Any]) -> None:
        for path, result in zip(checks, results, strict=False):
            if isinstance(result, BadVersionError | NoNodeError):
                raise LeadershipLost(
                    "nothing was written: this server no longer runs the destination",
                    place=self.place(path),
                    hint="Another server took over, or the ZooKeeper session ended. Claim again where it runs now.",
                )

    def children(self, path: str) -> list[str]:
        try:
            return sorted(self.call(path, lambda: self._client.get_children_async(path)))
        except NoNodeError:
            return []

    def is_ours(self, path: str) -> bool:
        """Whether nobody but our account may write the node, make nodes in it and delete them. False without an
        account, and for a node that is not there."""
        try:
            acl, _ = self.call(path, lambda: self._client.get_acls_async(path))
        except NoNodeError:
            return False
        writers = [one.id for one in acl if one.perms & ~Permissions.READ]
        return bool(self._account) and all((who.scheme, who.id) == ("digest", self._account) for who in writers)

    def close(self) -> None:
        with contextlib.suppress(KazooException, KazooTimeoutError):
            self._client.stop()
        self._client.close()

    def call(self, path: str, start: Callable[[], Any]) -> Any:
        """The result of the call that `start` makes. Raises CursorError; NoNodeError and NodeExistsError pass."""
        if not self._client.connected:  # kazoo would queue the call, and make it whenever it reconnects
            raise self.away(path, "not connected")
        try:
            return start().get(timeout=_CALL_SECONDS)
        except (NoNodeError, NodeExistsError):
            raise
        except (NoAuthError, AuthFailedError, InvalidACLError) as error:
            raise self._refused(path, error) from error
        except (KazooException, KazooTimeoutError) as error:
            raise self.away(path, error) from error

    def _refused(self, path: str, error: Exception) -> CursorError:
        return CursorError(
            f"ZooKeeper at {self._hosts} refuses this account: {type(error).__name__}",
            place=self.place(path),
            hint="Set sluice.zk.auth (user:password, digest scheme) to an account that the nodes' ACL allows to read, "
            "write, create and delete. Nothing was overwritten.",
        )

    def away(self, path: str, why: object) -> CursorError:
        if isinstance(why, NoAuthError):
            return self._refused(path, why)
        reason = why if isinstance(why, str) else (str(why) or type(why).__name__)
        return CursorError(
            f"ZooKeeper at {self._hosts} does not answer: {reason}",
            place=self.place(path),
            hint="Start ZooKeeper or correct canal.zkServers; then try again.",
        )


def _add(request: Any, path: str, change: Change) -> None:
    if change.value is None:
        request.delete(path, version=-1 if change.version is None else change.version)
    elif change.version is None:
        request.create(path, change.value)
    else:
        request.set_data(path, change.value, version=change.version)
