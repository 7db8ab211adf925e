"""Addresses that doors listen at."""

from __future__ import annotations

import socket

from cdc_core.errors import ConfigError


def bracketed(host: str) -> str:
    """The host as a URL has it."""
    return f"[{host}]" if ":" in host else host


def listen(host: str, port: int, key: str) -> socket.socket:
    """A listening socket. Raises ConfigError, which names `key` as the setting to change, when it cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(512)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot listen: {error.strerror or error}",
            place=f"{host}:{port}",
            hint=f"Stop the program that listens there, or set {key} (and canal.ip) to a free address of this host.",
        ) from error
    return listener
