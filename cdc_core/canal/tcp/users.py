"""Who may use a destination over TCP: `canal.user`, `canal.passwd` and `sluice.tcp.anyone`, by destination.

A login names no destination, so it is refused when no destination knows it; each request is checked against its own.
"""

from __future__ import annotations

from typing import Protocol

from pydantic import SecretStr

from cdc_core.canal.protocol.requests import Login
from cdc_core.canal.protocol.scramble import matches
from cdc_core.errors import AccessDenied

_HINT = (
    "Set canal.user and canal.passwd (SHA1 of the SHA1 of the password, in hexadecimal), or sluice.tcp.anyone = true, "
    "in the destination's instance.properties or for all in canal.properties."
)


class Gate(Protocol):
    """What a destination's configuration says of its users."""

    @property
    def tcp_user(self) -> str: ...
    @property
    def tcp_passwd(self) -> SecretStr: ...
    @property
    def tcp_anyone(self) -> bool: ...


def may_use(gate: Gate, login: Login, seed: bytes) -> bool:
    """Whether the destination knows the user. Without a user configured, the password alone counts, as in Canal."""
    if gate.tcp_user and gate.tcp_user != login.user:
        return False
    kept = gate.tcp_passwd.get_secret_value()
    return matches(login.token, kept, seed) if kept else gate.tcp_anyone


def check(gate: Gate, login: Login, seed: bytes, place: str) -> None:
    """Raises AccessDenied."""
    if not may_use(gate, login, seed):
        raise refused(login, place)


def refused(login: Login, place: str = "") -> AccessDenied:
    """The error for an unknown user, in Canal's words."""
    return AccessDenied(f"auth failed for user:{login.user[:64]}", place=place, hint=_HINT)
