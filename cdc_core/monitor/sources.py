"""Asks MySQL servers for their binlog files, with one account or one of each server.

The password is in no value, log or error. Where a server cannot be asked, its view says why, and lags are unknown.
"""

from __future__ import annotations

import configparser
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import ER
from pymysql.cursors import DictCursor

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.source.connection import Connection, connect, source_error, version_of
from cdc_core.source.journals import Journals, read_journals
from cdc_core.source.retention import retention
from cdc_core.source.settings import SourceSettings, SslMode

NO_ACCOUNT = "no account for MySQL was given"
_ALL = "client"
_LONGEST = 500  # characters of an error


@dataclass(frozen=True, slots=True)
class SourceView:
    """A MySQL server's answer at `at`, in epoch seconds. `keep`: for how long it keeps a file, 0 for ever or where that
    is not known. `behind`: how many seconds it lags its own source, None where it is no replica, or where it is not
    known because its replication is `halted`. `error`: why it could not be asked."""

    address: str
    at: float = 0.0
    journals: Journals | None = None
    keep: float = 0.0
    behind: float | None = None
    halted: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class MySqlAccounts:
    """The settings of each server by its address as cursors name it, and those for all others."""

    named: Mapping[str, Mapping[str, str]]
    others: Mapping[str, str]

    @classmethod
    def of(cls, user: str, password: str) -> MySqlAccounts:
        """One account for all servers; none with an empty user."""
        return cls({}, {"user": user, "password": password} if user else {})

    def __repr__(self) -> str:
        return f"<MySqlAccounts {', '.join(self.named)}{' and others' if self.others else ''}>"

    def settings_of(self, address: str) -> SourceSettings | None:
        """How to reach the server that cursors call `address`; None without an account for it."""
        found = {**self.others, **self.named.get(address, {})}
        host, _, port = address.rpartition(":")
        if not found.get("user") or not host:
            return None
        return SourceSettings(
            host=found.get("host", host),
            port=int(found.get("port", port)),
            user=found["user"],
            password=found.get("password", ""),
            ssl_mode=found.get("ssl-mode", SslMode.PREFERRED),
            ssl_ca=found.get("ssl-ca", ""),
            ssl_cert=found.get("ssl-cert", ""),
            ssl_key=found.get("ssl-key", ""),
            public_key=found.get("server-public-key-path", ""),
            connect_timeout=5,
            so_timeout=10,
        )


def accounts_in(path: Path) -> MySqlAccounts:
    """Returns the accounts of a MySQL option file: `[client]` for all servers, `[HOST:PORT]` for one. Raises
    ConfigError."""
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False)
    hint = "Write [client] with user = and password =, and where one server differs [HOST:PORT] as cursors name it."
    try:
        parser.read_string(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "it is not text"
        raise ConfigError(f"the option file cannot be read: {why}", place=str(path), hint=hint) from None
    except configparser.Error as error:  # its message has lines of the file
        where = f"{path}, line {error.lineno}" if isinstance(error, configparser.MissingSectionHeaderError) else path
        raise ConfigError("not an option file of MySQL", place=str(where), hint=hint) from None
    groups = {
        name: {key.replace("_", "-"): _unquoted(value or "") for key, value in parser.items(name)}
        for name in parser.sections()
    }
    others = groups.pop(_ALL, {})
    groups = {name: group for name, group in groups.items() if ":" in name}  # others are of MySQL's own programs
    for name, group in groups.items():
        if not group.get("port", name.rpartition(":")[2]).isdigit():
            raise ConfigError(f"[{name}] names no port", place=str(path), hint=hint)
    others = {key: value for key, value in others.items() if key not in ("host", "port")}
    if not others.get("user") and not any(group.get("user") for group in groups.values()):
        raise ConfigError("the option file names no user", place=str(path), hint=hint)
    return MySqlAccounts(groups, others)


def shown(text: str) -> str:
    """One line of bounded length, without what a terminal would obey: any server may have written it."""
    return "".join(one if one.isprintable() else " " for one in text[:_LONGEST])


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


class AskedSource:
    """One server. The connection stays for the next question; one thread at a time may `ask`."""

    def __init__(self, address: str, settings: SourceSettings | None) -> None:
        self.address = address
        self._settings = settings
        self._conn: Connection | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<AskedSource {self.address}>"

    def ask(self, now: float) -> SourceView:
        with self._lock:
            if self._settings is None:
                return SourceView(self.address, now, error=NO_ACCOUNT)
            try:
                return self._asked(self._settings, now)
            except SluiceError as error:
                self._end()
                return SourceView(self.address, now, error=shown(error.message))

    def _asked(self, settings: SourceSettings, now: float) -> SourceView:
        try:
            if self._conn is None:
                self._conn = connect(settings)
            journals = read_journals(self._conn)
            behind = _behind(self._conn)
            known = [one for one in behind if one is not None]
            return SourceView(
                self.address,
                now,
                journals,
                retention(self._conn).seconds,
                max(known, default=None),
                halted=len(known) < len(behind),
            )
        except (pymysql.err.MySQLError, OSError) as error:
            raise source_error(error, settings) from error

    def close(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None and conn.open:
            conn.close()


def _behind(conn: Connection) -> list[float | None]:
    """For each channel of a replica how many seconds it lags, None where its replication is halted. MariaDB wants
    another privilege for it, SLAVE MONITOR: without it this alone is unknown."""
    version = version_of(conn)
    modern = not version.mariadb and version.number >= (8, 0, 22)
    rows: list[dict[str, Any]] = []
    with conn.cursor(DictCursor) as cursor:
        try:
            cursor.execute("SHOW REPLICA STATUS" if modern else "SHOW SLAVE STATUS")
            rows = list(cursor.fetchall())
        except pymysql.err.OperationalError as error:
            if error.args[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
                raise
    found = [row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master")) for row in rows]
    return [None if one is None else float(one) for one in found]
