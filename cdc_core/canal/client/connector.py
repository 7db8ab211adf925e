"""Canal's simple connector: one client id of one destination at one server (`SimpleCanalConnector`)."""

from __future__ import annotations

import math
import ssl
from typing import Self

from cdc_core.canal.client.events import Message, message_of
from cdc_core.canal.client.link import Link
from cdc_core.canal.protocol import declared
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.scramble import token
from cdc_core.errors import SessionError

FOREVER = math.inf
_MILLISECONDS = 2  # java.util.concurrent.TimeUnit's ordinal


class CanalConnector:
    """`timeout_seconds` is how long the server may take for an answer, beyond what a `get` waits for rows. `filter` is
    subscribed to with each connection. Not for several threads at once.

    `connect` rolls back what an earlier connection left outstanding, as Canal's does, so that it comes again."""

    def __init__(
        self,
        host: str,
        port: int,
        destination: str,
        *,
        user: str = "",
        password: str | None = None,
        client_id: int = 1001,
        filter: str = "",
        timeout_seconds: float = 60.0,
        tls: ssl.SSLContext | None = None,
        rollback_on_connect: bool = True,
    ) -> None:
        self.destination, self.client_id, self.filter = destination, client_id, filter
        self._address = host, port
        self._user, self._password = user, password
        self._timeout, self._tls, self._rolls_back = timeout_seconds, tls, rollback_on_connect
        self._names = {"destination": destination, "client_id": str(client_id)}
        self._link: Link | None = None

    def __repr__(self) -> str:
        state = "connected" if self._link else "closed"
        return f"<CanalConnector {self._address[0]}:{self._address[1]} {self.destination}/{self.client_id} {state}>"

    # -- life

    def connect(self) -> None:
        """Logs in and subscribes. Raises ServiceUnavailable when nobody answers, SessionError for what the server
        refuses: a wrong password, an unknown destination."""
        self.disconnect()
        link = self._open()
        try:
            seeds = declared.Handshake.FromString(link.receive(PacketType.HANDSHAKE, self._timeout)).seeds
            sent = token(self._password, seeds).encode() if self._password else b""
            link.send(PacketType.CLIENTAUTHENTICATION, declared.ClientAuth(username=self._user, password=sent))
            link.receive(PacketType.ACK, self._timeout)
        except BaseException:
            link.close()
            raise
        self._link = link
        self.subscribe(self.filter)
        if self._rolls_back:
            self.rollback()

    def _open(self) -> Link:
        return Link(*self._address, self._timeout, self._tls)

    def disconnect(self) -> None:
        """What is outstanding stays so until it is rolled back, or its lease ends."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    # -- Canal's calls

    def subscribe(self, filter: str = "") -> None:
        """Makes the client known, with a filter over `database.table`; without one it keeps that of before."""
        self._request(PacketType.SUBSCRIPTION, declared.Sub(**self._names, filter=filter))
        self.filter = filter or self.filter

    def unsubscribe(self) -> None:
        """Ends the subscription: the server forgets the cursor."""
        self._request(PacketType.UNSUBSCRIPTION, declared.Unsub(**self._names))

    def get(self, batch_size: int = 1000, timeout_seconds: float | None = None) -> Message:
        """`get_without_ack` and `ack` in one: what is received and lost then does not come again."""
        message = self.get_without_ack(batch_size, timeout_seconds)
        if message.id != -1:
            self.ack(message.id)
        return message

    def get_without_ack(self, batch_size: int = 1000, timeout_seconds: float | None = None) -> Message:
        """The next batch: `batch_size` in the server's unit (rows, or KB of the binlog). Without a time-out it does not
        wait for rows; FOREVER waits as long as it takes. Id -1 when there is nothing."""
        timeout, limit = -1, self._timeout
        if timeout_seconds is not None:
            timeout = 0 if timeout_seconds == FOREVER else max(int(timeout_seconds * 1000), 1)
            limit = self._timeout + timeout_seconds
        get = declared.Get(
            **self._names, fetch_size=batch_size, timeout=timeout, unit=_MILLISECONDS, auto_ack=False, names_source=True
        )
        link = self._connected()
        link.send(PacketType.GET, get)
        return message_of(link.receive(PacketType.MESSAGES, None if limit == FOREVER else limit))

    def ack(self, batch_id: int) -> None:
        """Batches are acked in the order in which they came. The protocol has no answer: an error comes with the next
        call, as SessionError, and ends the connection."""
        self._connected().send(PacketType.CLIENTACK, declared.ClientAck(**self._names, batch_id=batch_id))

    def rollback(self, batch_id: int | None = None) -> None:
        """This batch and all later ones come again; without one, all that are outstanding."""
        rollback = declared.ClientRollback(**self._names, batch_id=batch_id or 0)
        self._connected().send(PacketType.CLIENTROLLBACK, rollback)

    def _request(self, kind: PacketType, body: object) -> None:
        link = self._connected()
        link.send(kind, body)
        link.receive(PacketType.ACK, self._timeout)

    def _connected(self) -> Link:
        if self._link is None:
            raise SessionError("the connector is not connected", place=self.destination, hint="Call connect() first.")
        return self._link
