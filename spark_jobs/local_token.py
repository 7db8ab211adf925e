"""The tokens of the Spark Connect servers that are started on this machine, each in a file of its user alone.

Who may call a Spark Connect server runs code as its user. So a server that the stack starts refuses callers without the
token of this run, which is in its environment, and in no command line. Programs of the same user find it here by the
server's port; nobody has to pass it on. It does not protect from that user, nor from root.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from cdc_core.errors import ConfigError

VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Spark's own: where a server finds its token."""
_DEFAULT_PORT = 15002
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def new_token() -> str:
    return secrets.token_urlsafe(32)


def publish(port: int, token: str) -> None:
    """Lets programs of this user find the token. Raises ConfigError where it can be written nowhere."""
    for folder in _folders():
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_own(folder):
                (file := _file(folder, port)).unlink(missing_ok=True)
                with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
                    handle.write(token)
                return
    hint = "Set XDG_STATE_HOME to a folder that this user can write."
    raise ConfigError("the token of Spark cannot be written", place=", ".join(map(str, _folders())), hint=hint)


def withdraw(port: int) -> None:
    """Removes it: the server has ended."""
    for folder in _folders():
        with suppress(OSError):
            _file(folder, port).unlink(missing_ok=True)


def with_local_token(remote: str) -> str | None:
    """The `sc://` address with the token of the server that listens there. None where it is not one of ours, or has a
    token or TLS already."""
    url = urlsplit(remote)
    if url.hostname not in _LOOPBACK or ";token=" in url.path or ";use_ssl=true" in url.path.lower():
        return None
    port = url.port or _DEFAULT_PORT
    token = next(filter(None, (_read(folder, port) for folder in _folders())), "")
    path = url.path.rstrip("/;") or "/"
    return f"sc://localhost:{port}{path};token={token}" if token else None  # Spark sends none in clear elsewhere


def _folders() -> list[Path]:
    """Where tokens may be, the best place first: it lasts, and does not depend on the working directory."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    return [*([state / "sluice"] if state.is_absolute() else []), Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}"]


def _file(folder: Path, port: int) -> Path:
    return folder / f"spark-{port}.token"


def _is_own(folder: Path) -> bool:
    """Whether nobody else can put files there: in a folder for temporary files another user may have been first."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _read(folder: Path, port: int) -> str:
    with suppress(OSError):
        return _file(folder, port).read_text() if _is_own(folder) else ""
    return ""
