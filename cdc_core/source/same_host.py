"""Whether two host names mean one host: Java Canal keeps the resolved name of an address, Sluice the configured one."""

from __future__ import annotations

import socket
from collections.abc import Callable


def same_host(one: str, other: str, resolve: Callable[[str], str] = socket.gethostbyname) -> bool:
    """Compares the first IPv4 addresses, as Java's InetSocketAddress does, or names when one does not resolve."""
    if one == other:
        return True
    try:
        return resolve(one) == resolve(other)
    except OSError:
        return False
