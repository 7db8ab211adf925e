"""Reads the socket of a dump, and names the ways in which it ends."""

from __future__ import annotations

import socket
import ssl

from cdc_core.errors import SourceUnavailable
from cdc_core.source.framing import Framer
from cdc_core.source.settings import SourceSettings

MISSED = 3  # heartbeats: after so many a silent server counts as gone
AGAIN = "The destination tries again; check the server and the network if this stays so."


def receive(sock: socket.socket, framer: Framer, settings: SourceSettings) -> int:
    """Receives into the framer and returns the number of bytes. Raises SourceUnavailable when the connection is lost,
    and what the socket raises when it has no bytes for now."""
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
