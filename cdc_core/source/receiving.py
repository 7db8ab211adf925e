"""Bytes from a server that sends its binlog, and what is said when none come any more."""

from __future__ import annotations

import socket
import ssl

from cdc_core.errors import SourceUnavailable
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings

MISSED = 3  # heartbeats: a server that is silent for so long is away
AGAIN = "It is tried again; check the server and the network if it stays so."


def receive(sock: socket.socket, framer: Framer, settings: SourceSettings) -> int:
    """How many bytes came. Raises SourceUnavailable; that a socket has no more for now passes on."""
    try:
        count = sock.recv_into(framer.space())
    except (BlockingIOError, ssl.SSLWantReadError):
        raise
    except OSError as error:
        raise SourceUnavailable(f"the connection broke: {error}", place=settings.address, hint=AGAIN) from error
    if not count:
        raise SourceUnavailable("the server closed the connection", place=settings.address, hint=AGAIN)
    framer.received(count)
    return count
