"""Canal's embedded server: a service without doors, in the process of the program that reads it.

    with EmbeddedCanalServer(Path("conf")) as server:
        me = ClientIdentity("example")
        server.subscribe(me)
        message = server.get_without_ack(me, 1000, timeout_seconds=5)
        ...
        server.ack(me, message.id)

Calls are Canal's (`CanalServerWithEmbedded`), and so is what they mean; batches are those of the TCP door. One process
at a time reads a destination's cursor: a service on the same host needs its own configuration directory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cdc_core.canal.client.events import Message, message_of
from cdc_core.canal.protocol.requests import ClientAck, ClientRollback, Get, Subscribe, Unsubscribe
from cdc_core.canal.tcp.commands import Commands, owner_of
from cdc_core.canal.tcp.reply import Budget, Reply
from cdc_core.config import load_service
from cdc_core.destination.service import CanalService
from cdc_core.errors import ConfigError
from cdc_core.server.server import CanalServer

_MEMORY = 1 << 62  # bytes: a message is in memory as a whole anyway


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """A client of a destination, and the filter that it subscribes with."""

    destination: str
    client_id: int = 1001
    filter: str = ""


class EmbeddedCanalServer:
    """`conf` is the directory of canal.properties. Several threads may call. Raises SessionError for a client that is
    not subscribed, UnknownDestination, and what else keeps a destination from serving."""

    def __init__(self, conf: Path) -> None:
        config, _ = load_service(conf)
        self._server = CanalServer(config, conf)
        self._commands = Commands(self._server, Budget(_MEMORY))

    def __repr__(self) -> str:
        return f"<EmbeddedCanalServer {', '.join(self._server.destinations())}>"

    # -- life

    def start(self) -> None:
        """Reads the sources from now on."""
        self._server.start()

    def stop(self) -> None:
        """What is not acked comes again after the next start."""
        self._server.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- clients

    def subscribe(self, client: ClientIdentity) -> None:
        """Makes the client known; one that is known stays where it is. Its filter is kept."""
        self._commands.subscribe(Subscribe(client.destination, client.client_id, client.filter))

    def unsubscribe(self, client: ClientIdentity) -> None:
        """Forgets the client and frees what it held back."""
        self._commands.unsubscribe(Unsubscribe(client.destination, client.client_id))

    def list_all_subscribe(self, destination: str) -> list[ClientIdentity]:
        """The subscribed clients, each with its own filter."""
        service = self._service(destination)
        return [ClientIdentity(destination, one, service.filter_of(one)) for one in service.clients()]

    def list_batch_ids(self, client: ClientIdentity) -> list[int]:
        """The client's batches that are neither acked nor rolled back, in the order in which they came."""
        return self._service(client.destination).batches(client.client_id, owner_of(client.client_id))

    # -- batches

    def get(self, client: ClientIdentity, batch_size: int, timeout_seconds: float | None = None) -> Message:
        """`get_without_ack` and `ack` in one: what fails after it does not come again."""
        message = self.get_without_ack(client, batch_size, timeout_seconds)
        if message.id != -1:
            self.ack(client, message.id)
        return message

    def get_without_ack(self, client: ClientIdentity, batch_size: int, timeout_seconds: float | None = None) -> Message:
        """The next batch: at most about `batch_size` rows, or memory units, as the destination's batch mode says. Waits
        for rows for so long; without a time-out not at all. Id -1 when there is nothing."""
        if batch_size < 1:
            hint = "Ask for 1 or more."
            raise ConfigError(f"a batch cannot have {batch_size} rows", place=client.destination, hint=hint)
        deadline = time.monotonic() + (timeout_seconds or 0.0)
        request, seen = Get(client.destination, client.client_id, batch_size), -1
        while (reply := self._commands.fetch(request)) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return Message(-1)
            seen, _ = self._service(client.destination).await_change(seen, min(left, 1.0))
        return _message(reply)

    def ack(self, client: ClientIdentity, batch_id: int) -> None:
        """The cursor is written when this returns. Raises SessionError for a batch that is not the next to ack."""
        self._commands.ack(ClientAck(client.destination, client.client_id, batch_id))

    def rollback(self, client: ClientIdentity, batch_id: int | None = None) -> None:
        """This batch and all later ones come again; without one, all that are outstanding."""
        self._commands.rollback(ClientRollback(client.destination, client.client_id, batch_id))

    def _service(self, destination: str) -> CanalService:
        return self._server.destination(destination).service()


def _message(reply: Reply) -> Message:
    try:
        body = b"".join(bytes(part) for part in reply.parts())
    finally:
        reply.close()
    return Message(reply.batch_id, message_of(body).entries, reply.source)
