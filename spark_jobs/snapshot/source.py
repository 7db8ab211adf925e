"""The MySQL server of which a snapshot is taken, and connections to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

import pymysql

from cdc_core.config import InstanceConfig
from cdc_core.contract.status import SourceStatus
from cdc_core.errors import SourceChanged, SourceUnavailable
from cdc_core.source.authentication import GuardedConnection, read_public_key
from cdc_core.source.settings import source_settings

_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, sql_select_limit = 18446744073709551615"
    "/*!50708 , max_execution_time = 0 *//*M!100101 , max_statement_time = 0 */"  # MySQL's, and MariaDB's
    "/*!80003 , information_schema_stats_expiry = 0 */"  # else counts of rows may be a day old
)


@dataclass(frozen=True, slots=True)
class Source:
    """`ssl` as pymysql takes it; None: TLS where the server has it."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ssl: dict[str, Any] | None = None
    ssl_disabled: bool = False
    server_id: int | None = None  # the only server that may answer; None: any
    public_key: bytes = field(default=b"", repr=False)  # its RSA key as PEM; b"": the one that it sends

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def captured_source(instance: InstanceConfig, status: SourceStatus) -> Source:
    """Returns the server that the service reads at this moment, with the account of the configuration. Raises
    SourceUnavailable while the service reads no server."""
    if status.address is None:
        hint = "See that the destination runs (sluice status)."
        raise SourceUnavailable("the service reads no server", place=instance.destination, hint=hint)
    read = source_settings(instance, status.address)
    disabled = instance.ssl_mode == "DISABLED"
    key = read_public_key(instance.rsa_public_key)
    return Source(read.host, read.port, read.user, read.password, _tls(instance), disabled, status.server_id, key)


def _tls(instance: InstanceConfig) -> dict[str, Any] | None:
    """pymysql's TLS settings, as strict as those of the service's own connection."""
    if instance.ssl_mode in ("DISABLED", "PREFERRED"):
        return None
    verified = instance.ssl_mode.startswith("VERIFY")
    files = {"ca": instance.ssl_ca, "cert": instance.ssl_cert, "key": instance.ssl_key}
    settings: dict[str, Any] = {name: str(path) for name, path in files.items() if path}
    settings["verify_mode"] = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    settings["check_hostname"] = instance.ssl_mode == "VERIFY_IDENTITY"
    return settings


def connect(source: Source) -> pymysql.Connection[Any]:
    """Returns a connection whose transactions are snapshots: REPEATABLE READ, times in UTC. Raises SourceUnavailable,
    and SourceChanged if a server other than the source's answers."""
    try:
        connection = GuardedConnection(
            public_key=source.public_key,
            host=source.host,
            port=source.port,
            user=source.user,
            password=source.password,
            ssl=source.ssl,
            ssl_disabled=source.ssl_disabled,
            charset="utf8mb4",
            init_command=_SESSION,
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT @@GLOBAL.server_id")
            (answering,) = cursor.fetchone() or (None,)
    except pymysql.MySQLError as error:
        hint = "Check the address, account and password in conf/{destination}/instance.properties."
        raise SourceUnavailable(f"cannot connect: {error.args[-1]}", place=source.address, hint=hint) from error
    if source.server_id is not None and answering != source.server_id:
        connection.close()
        message = f"server {answering} answers, but the service reads server {source.server_id}"
        hint = "Wait until the service reads the server that has the address now, then try again. Name a replica by an "
        hint += "address that no other server has."
        raise SourceChanged(message, place=source.address, hint=hint)
    return connection
