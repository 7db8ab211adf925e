"""The MySQL server that a snapshot reads, and connections to it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field, replace
from typing import Any

import pymysql

from cdc_core.config import InstanceConfig
from cdc_core.contract.status import SourceStatus
from cdc_core.errors import SourceChanged, SourceUnavailable, TableStopped
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.schema.column_rule import Cast
from cdc_core.schema.table import Column, TableSchema
from cdc_core.source.authentication import GuardedConnection, read_public_key
from cdc_core.source.password_command import PasswordCommand, with_password
from cdc_core.source.settings import source_settings

_SESSION = (
    "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, sql_select_limit = 18446744073709551615"
    "/*!50708 , max_execution_time = 0 *//*M!100101 , max_statement_time = 0 */"  # MySQL's, and MariaDB's
    "/*!80003 , information_schema_stats_expiry = 0 */"  # else counts of rows may be a day old
)


@dataclass(frozen=True, slots=True)
class Source:
    """`ssl` as pymysql takes it; None: TLS where the server has it. `rules`: what the lake sees of its tables.
    `zero_dates`: the destination's `sluice.zero.dates`."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    ssl: dict[str, Any] | None = None
    ssl_disabled: bool = False
    server_id: int | None = None  # the only server that may answer; None: any
    public_key: bytes = field(default=b"", repr=False)  # its RSA key as PEM; b"": the one that it sends
    rules: Rules = field(default=NO_RULES, repr=False)
    zero_dates: str = "fail"
    password_command: PasswordCommand | None = None  # prints the password, in the place of `password`

    def compared(self, schema: TableSchema) -> TableSchema:
        """Returns a table's definition as `seen`, with dates as dates: whether the lake has them as text, only the lake
        says, but for hashes of them, and for those that a rule makes texts. A comparison says itself what zero dates
        do. Raises TableStopped."""
        seen = self.seen(schema, self.zero_dates)
        return replace(seen, columns=tuple(map(_compared, seen.columns)))

    def seen(self, schema: TableSchema, zero_dates: str) -> TableSchema:
        """Returns a table's definition as the lake sees it, with this `sluice.zero.dates`. Raises TableStopped where a
        rule does not fit the table."""
        seen = self.view(schema, zero_dates)
        if seen.defect:
            raise TableStopped(seen.defect.reason, place=seen.name, hint=seen.defect.hint)
        return seen

    def view(self, schema: TableSchema, zero_dates: str) -> TableSchema:
        """Returns the same, with a defect where a rule does not fit the table: to be compared with another one."""
        return self.rules.view(schema.as_read(zero_dates))

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def _compared(column: Column) -> Column:
    ruled = column.mask or column.cast is Cast.DATETIME_STRING or column.zero_dates("fail") == "string"
    rule = replace(column.rule, zero_dates=None) if column.rule else None
    return replace(column, rule=rule, as_text=column.as_text and bool(ruled))


def captured_source(instance: InstanceConfig, status: SourceStatus, rules: Rules = NO_RULES) -> Source:
    """Returns the server that the service reads at this moment, with the account of the configuration, as `rules` show
    it. Raises SourceUnavailable while the service reads no server, ConfigError where a salt is missing here."""
    if status.address is None:
        hint = "See that the destination runs (sluice status)."
        raise SourceUnavailable("the service reads no server", place=instance.destination, hint=hint)
    read = source_settings(instance, status.address)
    disabled = instance.ssl_mode == "DISABLED"
    key = read_public_key(instance.rsa_public_key)
    tls, salted = _tls(instance), rules.filled(os.environ.get)
    return Source(
        read.host,
        read.port,
        read.user,
        read.password,
        tls,
        disabled,
        status.server_id,
        key,
        salted,
        instance.zero_dates,
        read.password_command,
    )


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
        connection = with_password(
            source,
            lambda password: GuardedConnection(
                public_key=source.public_key,
                is_token=source.password_command is not None,
                host=source.host,
                port=source.port,
                user=source.user,
                password=password,
                ssl=source.ssl,
                ssl_disabled=source.ssl_disabled,
                charset="utf8mb4",
                init_command=_SESSION,
            ),
        )
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT @@GLOBAL.server_id")
            (answering,) = cursor.fetchone() or (None,)
    except (pymysql.MySQLError, OSError) as error:
        hint = "Check the address, account, password and files of TLS in conf/{destination}/instance.properties."
        raise SourceUnavailable(f"cannot connect: {error.args[-1]}", place=source.address, hint=hint) from error
    if source.server_id is not None and answering != source.server_id:
        connection.close()
        message = f"server {answering} answers, but the service reads server {source.server_id}"
        hint = "Wait until the service reads the server that has the address now, then try again. Name a replica by an "
        hint += "address that no other server has."
        raise SourceChanged(message, place=source.address, hint=hint)
    return connection
