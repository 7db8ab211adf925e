"""A MySQL or MariaDB server on the loopback address: data from a template, accounts with random passwords.

An init file that only the owner can read makes the accounts at every start. The data survive a crash of the process,
but not a power cut: they are for trials and tests.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from cdc_core.source.authentication import GuardedConnection
from orchestration.stack.mysql.install import MARIADB, copy_template, install
from orchestration.stack.ports import free_port
from orchestration.stack.process import Process
from orchestration.stack.progress import Notify, quiet

Option = str | int | bool | None
_COMMON: dict[str, Option] = {
    "bind-address": "127.0.0.1",
    "skip-name-resolve": True,
    "innodb-buffer-pool-size": "64M",
    "innodb-read-io-threads": 1,  # each takes 256 of the 65,536 slots that a machine has for asynchronous I/O
    "innodb-write-io-threads": 1,
    "innodb-flush-log-at-trx-commit": 2,
    "sync-binlog": 0,
    "performance-schema": "OFF",
    "max-connections": 200,
    "character-set-server": "utf8mb4",
    "server-id": 1,
    "log-bin": "mysql-bin",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "loose-binlog-row-metadata": "FULL",
    "secure-file-priv": "",
}
_MYSQL_ONLY: dict[str, Option] = {
    "gtid-mode": "ON",
    "enforce-gtid-consistency": "ON",
    "loose-mysqlx": "OFF",
    "loose-innodb-redo-log-capacity": "32M",
    "loose-innodb-log-writer-threads": "OFF",  # for many sessions at a time: with one, statements take twice as long
}


class MySqlServer:
    """One server. `user` may read and replicate; `root()` has all privileges. The data survive `stop` and `kill`."""

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        port: int | None = None,
        notify: Notify = quiet,
        **options: Option,
    ) -> None:
        self.version = version
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self.user = "sluice"
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._installed = install(version, notify)
        self._passwords = _passwords(directory / "passwords.json")
        self._run = Path(tempfile.mkdtemp(prefix="sluice-mysql-"))  # a socket's path has at most 103 characters
        self._socket = self._run / "s"
        self._options = {name.replace("_", "-"): value for name, value in options.items()}
        self.log = directory / "mysqld.log"
        self.process = Process(
            f"{'MariaDB' if version == MARIADB else 'MySQL'} {version}".removesuffix(" mariadb"),
            self._command(),
            log=self.log,
            ready=self._answers,
            timeout=120,
        )

    def __repr__(self) -> str:
        return f"<MySqlServer {self.version} {'running' if self.process.running else 'stopped'} port={self.port}>"

    @property
    def password(self) -> str:
        return self._passwords["sluice"]

    def start(self) -> MySqlServer:
        data = self._directory / "data"
        if not (data / "mysql").is_dir():
            copy_template(self._installed, data)
        self._run.mkdir(exist_ok=True)
        self._write_init_file()
        self.process.start()
        return self

    def stop(self) -> None:
        self.process.stop()
        shutil.rmtree(self._run, ignore_errors=True)

    def kill(self) -> None:
        """Ends the server as a crash would. `start` recovers its data."""
        self.process.kill()

    def root(self, database: str | None = None) -> Connection[Any]:
        """A new connection with all privileges, autocommit on. The caller closes it."""
        return GuardedConnection(
            unix_socket=str(self._socket), ssl_disabled=True, user="root", password=self._passwords["root"],
            database=database, autocommit=True, charset="utf8mb4",
        )  # fmt: skip

    def connect(self, database: str | None = None) -> Connection[Any]:
        """A new connection of the capturing account, over TCP. The caller closes it."""
        return GuardedConnection(
            host=self.host, port=self.port, user=self.user, password=self.password, database=database,
            autocommit=True, charset="utf8mb4",
        )  # fmt: skip

    @contextmanager
    def database(self, prefix: str = "t") -> Iterator[str]:
        """The name of a fresh database, dropped at the end."""
        name = f"{prefix}_{secrets.token_hex(4)}"
        self.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        try:
            yield name
        finally:
            self.execute("SET SESSION foreign_key_checks = 0", f"DROP DATABASE IF EXISTS {name}")

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Runs statements as root."""
        with self.root(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def position(self) -> tuple[str, int]:
        """The journal and offset where the next event will be written."""
        statements = ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
        with self.root() as connection, connection.cursor() as cursor:
            newer = self.version[0].isdigit() and tuple(map(int, self.version.split(".")[:2])) >= (8, 4)
            cursor.execute(statements[0] if newer else statements[1])
            row = cursor.fetchone()
        assert row is not None
        return str(row[0]), int(row[1])

    def _command(self) -> list[str]:
        options = {**_COMMON, **({} if self._installed.mariadb else _MYSQL_ONLY), **self._options}
        command = [*self._installed.command, f"--datadir={self._directory / 'data'}"]
        command += [f"--port={self.port}", f"--socket={self._socket}", f"--pid-file={self._run / 'pid'}"]
        command.append(f"--tmpdir={self._run}")  # a server that starts removes the temporary files of others there
        command.append(f"--init-file={self._directory / 'init.sql'}")
        for name, value in options.items():
            if value is not None and value is not False:
                command.append(f"--{name}" if value is True else f"--{name}={value}")
        return command

    def _write_init_file(self) -> None:
        user, root = self._passwords["sluice"], self._passwords["root"]
        statements = (
            "SET sql_log_bin=0",
            f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root}'",
            f"CREATE USER IF NOT EXISTS 'sluice'@'%' IDENTIFIED BY '{user}'",
            "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'sluice'@'%'",
        )
        _write_private(self._directory / "init.sql", "".join(f"{statement};\n" for statement in statements))

    def _answers(self) -> bool:
        if not (self._run / "pid").is_file():
            return False
        try:
            self.root().close()
        except pymysql.Error:
            return False
        return True


def _passwords(path: Path) -> dict[str, str]:
    """Random passwords, in a file next to the data that they open."""
    if not path.is_file():
        _write_private(path, json.dumps({name: secrets.token_urlsafe(18) for name in ("root", "sluice")}))
    passwords: dict[str, str] = json.loads(path.read_text())
    return passwords


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as handle:
        handle.write(text)
