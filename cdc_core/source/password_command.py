"""A password that a command prints, as a cloud's token that lives for a quarter of an hour.

The command runs without a shell. Neither its output nor what it writes to its standard error is logged, and no error
shows its arguments. One process asks it once for all connections of that time, and again when the server refuses what
it said before.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pymysql
from pymysql.constants import ER

from cdc_core.errors import ConfigError, SluiceError, SourceUnavailable

KEY = "sluice.source.password.command"
_LONGEST = 30.0  # seconds that a command may take
_RUN_IT = (
    "Run it by hand, as the process that connects does: with its account and environment. It must print the password."
)

_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class PasswordCommand:
    """The words of a command, in which `{host}`, `{port}` and `{user}` are those of the connection: a token may be good
    for one of them only. What it prints is used for so many `seconds`."""

    words: tuple[str, ...] = field(repr=False)
    seconds: float = 600.0
    longest: float = _LONGEST

    @classmethod
    def parse(cls, text: str, seconds: float = 600.0) -> PasswordCommand | None:
        """Returns the command of a line as a shell would split it; None of an empty one. Raises ValueError."""
        words = tuple(shlex.split(text))
        return cls(words, seconds) if words else None

    def of(self, host: str, port: int, user: str) -> PasswordCommand:
        """Returns the command for a connection."""
        return replace(self, words=tuple(_filled(one, host, str(port), user) for one in self.words))

    def run(self) -> str:
        """Returns what the command prints, without the newline at its end. Raises ConfigError, SourceUnavailable."""
        name = Path(self.words[0]).name
        try:
            with subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    said, _ = process.communicate(timeout=self.longest)
                except subprocess.TimeoutExpired:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # with what it has started
                    raise _failed(f"{name} takes longer than {self.longest:g} s") from None
        except OSError as error:
            message = f"the command for the password cannot be run: {name}: {error.strerror}"
            raise ConfigError(
                message, place=KEY, hint="Give a program's path and arguments, not a shell's syntax."
            ) from None
        if process.returncode:
            raise _failed(f"{name} ended with {process.returncode}")
        try:
            password = said.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise _failed(f"{name} printed what is not UTF-8") from None
        if not password:
            raise _failed(f"{name} printed nothing")
        return password


def _filled(word: str, host: str, port: str, user: str) -> str:
    return word.replace("{host}", host).replace("{port}", port).replace("{user}", user)


def _failed(why: str) -> SluiceError:
    return SourceUnavailable(f"the command for the password failed: {why}", place=KEY, hint=_RUN_IT)


class _Said:
    """What a command said last, and until when that counts."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.password, self.until = "", float("-inf")


_SAID: dict[PasswordCommand, _Said] = {}


class _Account(Protocol):
    """A server, an account, and its password or the command that prints it."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def user(self) -> str: ...

    @property
    def password(self) -> str: ...

    @property
    def password_command(self) -> PasswordCommand | None: ...


def with_password(
    account: _Account, connect: Callable[[str], _Made], clock: Callable[[], float] = time.monotonic
) -> _Made:
    """Returns what `connect` makes of the account's password, or of the one that its command prints. One from before
    that the server refuses is asked for again, once. Raises what `connect` raises, ConfigError, SourceUnavailable."""
    if account.password_command is None:
        return connect(account.password)
    command = account.password_command.of(account.host, account.port, account.user)
    password, fresh = _asked(command, clock)
    try:
        return connect(password)
    except pymysql.err.OperationalError as error:
        if error.args[:1] != (ER.ACCESS_DENIED_ERROR,):
            raise
        _forget(command, password)
        if fresh:
            raise
    password, _ = _asked(command, clock)
    try:
        return connect(password)
    except pymysql.err.OperationalError:
        _forget(command, password)
        raise


def _asked(command: PasswordCommand, clock: Callable[[], float]) -> tuple[str, bool]:
    """Returns the password, and whether the command was run for it now."""
    said = _SAID.setdefault(command, _Said())
    with said.lock:
        began = clock()
        if fresh := began >= said.until:
            said.password = command.run()
            said.until = began + command.seconds
        return said.password, fresh


def _forget(command: PasswordCommand, password: str) -> None:
    """Has the next connection ask again, unless another one has done so since."""
    said = _SAID[command]
    with said.lock:
        if said.password == password:
            said.password, said.until = "", float("-inf")
