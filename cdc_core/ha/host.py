"""This host's address, as its name resolves."""

from __future__ import annotations

import socket

from cdc_core.errors import ConfigError


def this_host() -> str:
    """Raises ConfigError when the host's own name has no address."""
    name = socket.gethostname()
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise ConfigError(
            f"the address of this host is not known: {error.strerror or error}",
            place=name,
            hint="Set canal.register.ip (for a consumer: give its address), or let the name resolve.",
        ) from error
