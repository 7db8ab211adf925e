"""Connections to the source over pymysql, and the errors for their failures. No retries; no password in any message."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pymysql
import structlog
from pymysql.constants import CR, ER

from cdc_core.errors import ConfigError, SluiceError, SourceError, SourceUnavailable
from cdc_core.source.authentication import ClearPasswordRefused, GuardedConnection, read_public_key, tls_context
from cdc_core.source.password_command import KEY, with_password
from cdc_core.source.same_host import same_host
from cdc_core.source.settings import SourceSettings, SslMode

Connection = pymysql.Connection
_DENIED = {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, 1698, 1820, 1862, 3118}
_PASSING = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError)
_TLS_HINT = (
    "Check canal.instance.ssl mode, CA and certificate against the server's (SHOW VARIABLES LIKE 'ssl%'), "
    "and that the host is named as in the certificate."
)
_KEY_HINT = (
    "Another server in between could have sent it. Use TLS with canal.instance.master.sslMode = VERIFY_CA, or give the "
    "server's key in sluice.rsa.publicKey."
)
_CLEAR_HINT = (
    "Set canal.instance.master.sslMode = VERIFY_IDENTITY, or VERIFY_CA, and the authorities of its certificate "
    "in sluice.ssl.ca: else whoever answers in the server's place would have the password."
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The server's version, from its greeting."""

    flavor: str  # mysql or mariadb
    number: tuple[int, ...]
    text: str

    @property
    def mariadb(self) -> bool:
        return self.flavor == "mariadb"


def version_of(conn: Connection) -> ServerVersion:
    """MariaDB writes 5.5.5- before its own version."""
    text = str(conn.get_server_info())  # type: ignore[no-untyped-call]
    mariadb = "mariadb" in text.lower()
    text = text.removeprefix("5.5.5-") if mariadb else text
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    number = tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    return ServerVersion("mariadb" if mariadb else "mysql", number, text)


def connect(settings: SourceSettings) -> Connection:
    """A connection with autocommit. Raises SourceUnavailable, or SourceError when another attempt cannot help."""
    mode = _mode(settings)
    if mode is SslMode.DISABLED:
        return _open(settings, None)
    try:
        return _open(settings, _tls_context(settings, mode))
    except _TlsError as failure:
        if mode is SslMode.PREFERRED:
            return _open(settings, None)
        raise SourceError(
            f"TLS with the server failed: {failure.reason}", place=settings.account, hint=_TLS_HINT
        ) from failure


@contextmanager
def connected(settings: SourceSettings) -> Iterator[Connection]:
    """A connection for the block. pymysql's errors in it become those of `source_error`."""
    try:
        with connect(settings) as conn:
            yield conn
    except (pymysql.err.MySQLError, OSError) as error:
        raise source_error(error, settings) from error


class _TlsError(Exception):
    """The TLS handshake failed, not the account: PREFERRED then connects without TLS."""

    def __init__(self, reason: object) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _mode(settings: SourceSettings) -> SslMode:
    try:
        return SslMode(str(settings.ssl_mode).upper())
    except ValueError as error:
        modes = ", ".join(SslMode)
        raise ConfigError(
            f"unknown ssl mode {str(settings.ssl_mode)!r}", place=settings.account, hint=f"Use one of {modes}."
        ) from error


def _tls_context(settings: SourceSettings, mode: SslMode) -> ssl.SSLContext:
    """Returns the TLS of a mode."""
    verifies = mode in (SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY)
    files = settings.ssl_ca, settings.ssl_cert, settings.ssl_key
    try:
        return tls_context(*files, verifies=verifies, named=mode is SslMode.VERIFY_IDENTITY)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(filter(None, files))
        raise ConfigError(
            f"TLS files cannot be read: {error}", place=named, hint="Give PEM files that this process may read."
        ) from error


def _open(settings: SourceSettings, context: ssl.SSLContext | None) -> Connection:
    tls: dict[str, Any] = {"ssl": context} if context else {"ssl_disabled": True}
    own_key = read_public_key(settings.public_key)
    try:
        conn = with_password(
            settings,
            lambda password: GuardedConnection(
                public_key=own_key,
                is_token=settings.password_command is not None,
                host=settings.host,
                port=settings.port,
                user=settings.user,
                password=password,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=max(1, int(settings.connect_timeout)),
                read_timeout=settings.so_timeout,
                write_timeout=settings.so_timeout,
                **tls,
            ),
        )
        if conn.fetched_key is not None and not same_host(settings.host, "127.0.0.1"):
            log.warning("the password was sent with a key from the network", source=settings.account, hint=_KEY_HINT)
        return conn
    except pymysql.err.MySQLError as error:
        original = getattr(error, "original_exception", None)
        gone = (
            ssl.SSLEOFError,
            ssl.SSLZeroReturnError,
        )  # the connection ended in the handshake: a restart, not a refusal
        if isinstance(original, ssl.SSLError) and not isinstance(original, gone):
            raise _TlsError(original) from error
        if error.args and error.args[0] == CR.CR_SSL_CONNECTION_ERROR:
            raise _TlsError(error.args[-1]) from error
        raise source_error(error, settings) from error
    except RuntimeError as error:  # an authentication plugin that pymysql lacks
        raise SourceError(
            f"the account's authentication plugin is not supported: {error}",
            place=settings.account,
            hint=f"ALTER USER '{settings.user}' IDENTIFIED WITH caching_sha2_password BY '...';",
        ) from error


def source_error(error: Exception, settings: SourceSettings) -> SluiceError:
    """The error of ours for one of pymysql or of the network."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[-1]) if error.args else type(error).__name__
    if isinstance(error, ClearPasswordRefused):
        return SourceError(text, place=settings.account, hint=_CLEAR_HINT)
    if code in _DENIED:
        refused = SourceUnavailable if settings.password_command and code == ER.ACCESS_DENIED_ERROR else SourceError
        return refused(  # the command's next word may be right: a service of tokens has bad moments
            f"the server refuses the account ({code}): {text}", place=settings.account, hint=_denied_hint(settings)
        )
    if code in (ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR):
        return SourceError(
            f"the account lacks a privilege ({code}): {text}",
            place=settings.account,
            hint=f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{settings.user}'@'%';",
        )
    passing = isinstance(error, (OSError, *_PASSING))
    if passing or code in (CR.CR_SERVER_LOST, CR.CR_SERVER_GONE_ERROR):
        return SourceUnavailable(
            f"the server cannot be reached: {text}",
            place=settings.address,
            hint="Check that it runs and that host and port are right; the destination tries again.",
        )
    return SourceError(
        f"the server answers ({code}): {text}", place=settings.account, hint="Correct what the message names."
    )


def _denied_hint(settings: SourceSettings) -> str:
    if settings.password_command is not None:
        return (
            f"Check canal.instance.dbUsername, and that {KEY} prints a password for this account and server that is "
            "still valid."
        )
    return (
        "Check canal.instance.dbUsername and dbPassword; on the server: "
        f"ALTER USER '{settings.user}'@'%' IDENTIFIED BY '...';"
        + (" Check also that sluice.rsa.publicKey is this server's key." if settings.public_key else "")
    )
