"""Addresses of this host."""

from __future__ import annotations

import ipaddress
import socket

from cdc_core.errors import ConfigError


def this_host() -> str:
    """The address that the host's own name resolves to. Raises ConfigError when it does not resolve."""
    name = socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ConfigError(
            f"the name of this host does not resolve: {error.strerror or error}",
            place=name,
            hint="Set canal.register.ip (for a consumer: give its address), or make the name resolve.",
        ) from error


def is_loopback(host: str) -> bool:
    """Whether only this host reaches the address."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
