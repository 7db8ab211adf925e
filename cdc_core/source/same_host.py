"""Whether two hosts are one: a Java Canal server writes the name that an address has, and we what is configured."""

from __future__ import annotations

import socket
from collections.abc import Callable


def same_host(one: str, other: str, resolve: Callable[[str], str] = socket.gethostbyname) -> bool:
    """By their first IPv4 addresses, as Java's InetSocketAddress compares. A name that does not resolve is itself."""
    if one == other:
        return True
    try:
        return resolve(one) == resolve(other)
    except OSError:
        return False
