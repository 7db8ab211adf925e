"""The configuration as frozen values. A field's alias is its key in the file; Sluice's own keys start with `sluice.`.

Nothing here opens a file. The models check values, not whether the MySQL server accepts them.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from cdc_core.config.queue import QueueConfig, ServerMode

Port = Annotated[int, Field(ge=0, le=65535)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]
Upper = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
Clients = Annotated[
    tuple[Natural, ...],
    BeforeValidator(lambda v: tuple(n.strip() for n in v.split(",") if n.strip()) if isinstance(v, str) else v),
]
Names = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda v: tuple(n.strip() for n in v.split(",") if n.strip()) if isinstance(v, str) else v),
]
SslMode = Annotated[Literal["DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"], Upper]


def _no_encryption(value: bool) -> bool:
    if value:
        raise ValueError("encrypted passwords are not supported")
    return value


def _words(value: str) -> str:
    try:
        shlex.split(value)
    except ValueError as error:
        raise ValueError(f"the command cannot be split into words: {error}") from None
    return value


def _hashed(value: SecretStr) -> SecretStr:
    """SHA1 of SHA1 of a password, also with MySQL's asterisk before it."""
    text = value.get_secret_value().removeprefix("*")
    if text and not re.fullmatch(r"[0-9A-Fa-f]{40}", text):
        raise ValueError("a password is kept as a hash of 40 hexadecimal digits: SELECT SHA1(UNHEX(SHA1('password')))")
    return SecretStr(text)


def _fields(value: object) -> object:
    """`database.table:column/column,...` as the columns by table, all in capitals."""
    if not isinstance(value, str):
        return value
    found: dict[str, frozenset[str]] = {}
    for part in filter(None, (one.strip() for one in value.split(","))):
        table, colon, columns = part.partition(":")
        names = frozenset(name.strip().upper() for name in columns.split("/") if name.strip())
        if not (colon and names and "." in table):
            raise ValueError(f"{part!r} is not database.table:column/column")
        found[table.strip().upper()] = names
    return found


FieldMap = Annotated[dict[str, frozenset[str]], BeforeValidator(_fields)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ServiceConfig(_Model):
    """canal.properties: what all destinations share."""

    conf_dir: Path = Field(alias="canal.conf.dir")
    data_dir: Path = Field(alias="canal.file.data.dir")
    host: str = Field("127.0.0.1", alias="canal.ip")
    http_port: Port = Field(11112, alias="canal.metrics.pull.port")
    flight_port: Port = Field(11113, alias="sluice.flight.port")
    zk_servers: str = Field("", alias="canal.zkServers")
    port: Port = Field(11111, alias="canal.port")
    register_ip: str = Field("", alias="canal.register.ip")
    zk_session_seconds: Annotated[float, Field(gt=0)] = Field(10.0, alias="sluice.zk.session.seconds")
    zk_auth: SecretStr = Field(SecretStr(""), alias="sluice.zk.auth")
    destinations: Names = Field((), alias="canal.destinations")
    auto_scan: bool = Field(True, alias="canal.auto.scan")
    auto_scan_interval: Positive = Field(5, alias="canal.auto.scan.interval")
    token: SecretStr = Field(SecretStr(""), alias="sluice.token")
    token_file: Path | None = Field(None, alias="sluice.token.file")
    http_anyone: bool = Field(False, alias="sluice.http.anyone")
    http_connections: Positive = Field(512, alias="sluice.http.connections")
    flight_connections: Positive = Field(1024, alias="sluice.flight.connections")
    admin_port: Port = Field(11110, alias="canal.admin.port")
    admin_user: str = Field("admin", alias="canal.admin.user")
    admin_passwd: Annotated[SecretStr, AfterValidator(_hashed)] = Field(SecretStr(""), alias="canal.admin.passwd")
    server_mode: ServerMode = Field("tcp", alias="canal.serverMode")
    without_netty: bool = Field(False, alias="canal.withoutNetty")
    tcp_cert: Path | None = Field(None, alias="sluice.tcp.cert")
    tcp_key: Path | None = Field(None, alias="sluice.tcp.key")
    tls_certificate: Path | None = Field(None, alias="sluice.tls.certificate")
    tls_key: Path | None = Field(None, alias="sluice.tls.key")
    tls_ca: Path | None = Field(None, alias="sluice.tls.ca")

    @property
    def serves_admin(self) -> bool:
        """Whether Canal's admin port is open: with a password of one's own, not with the stock file's."""
        return self.admin_passwd.get_secret_value().upper() not in ("", _STOCK_ADMIN)

    @property
    def serves_tcp(self) -> bool:
        """Whether Canal's TCP port is open. As in Canal, it is closed when a message queue is configured."""
        return self.server_mode == "tcp" and not self.without_netty

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if (self.tcp_cert is None) != (self.tcp_key is None):
            raise ValueError("sluice.tcp.cert and sluice.tcp.key must be set together")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("sluice.tls.certificate and sluice.tls.key must be set together")
        if self.tls_ca is not None and self.tls_certificate is None:
            raise ValueError("sluice.tls.ca has no effect without sluice.tls.certificate and sluice.tls.key")
        return self


class InstanceConfig(_Model):
    """instance.properties over canal.properties: one destination."""

    destination: str = Field(alias="canal.instance.destination")
    zk_servers: str = Field("", alias="canal.zkServers")
    slave_id: Annotated[int, Field(ge=0, lt=1 << 32)] = Field(0, alias="canal.instance.mysql.slaveId")
    address: str = Field("127.0.0.1:3306", alias="canal.instance.master.address", pattern=r"^[^\s:]+(:\d{1,5})?$")
    journal_name: str = Field("", alias="canal.instance.master.journal.name", pattern=r"^$|\.\d+$")
    position: Natural = Field(0, alias="canal.instance.master.position")
    timestamp: Natural = Field(0, alias="canal.instance.master.timestamp")
    gtid: str = Field("", alias="canal.instance.master.gtid")
    gtid_mode: bool = Field(False, alias="canal.instance.gtidon")
    standby_address: str = Field("", alias="canal.instance.standby.address", pattern=r"^$|^[^\s:]+(:\d{1,5})?$")
    standby_journal_name: str = Field("", alias="canal.instance.standby.journal.name", pattern=r"^$|\.\d+$")
    standby_position: Natural = Field(0, alias="canal.instance.standby.position")
    standby_timestamp: Natural = Field(0, alias="canal.instance.standby.timestamp")
    standby_gtid: str = Field("", alias="canal.instance.standby.gtid")
    fallback_seconds: Natural = Field(60, alias="canal.instance.fallbackIntervalInSeconds")
    detecting: bool = Field(False, alias="canal.instance.detecting.enable")
    detecting_sql: str = Field("select 1", alias="canal.instance.detecting.sql")
    detecting_seconds: Positive = Field(3, alias="canal.instance.detecting.interval.time")
    detecting_threshold: Positive = Field(3, alias="canal.instance.detecting.retry.threshold")
    heartbeat_ha: bool = Field(False, alias="canal.instance.detecting.heartbeatHaEnable")
    reset_to_end: bool = Field(False, alias="canal.auto.reset.latest.pos.mode")
    user: str = Field("canal", alias="canal.instance.dbUsername")
    password: SecretStr = Field(SecretStr("canal"), alias="canal.instance.dbPassword")
    password_command: Annotated[str, AfterValidator(_words)] = Field(
        "", alias="sluice.source.password.command", repr=False
    )
    password_seconds: Annotated[float, Field(gt=0)] = Field(600.0, alias="sluice.source.password.seconds")
    encrypted: Annotated[bool, AfterValidator(_no_encryption)] = Field(False, alias="canal.instance.enableDruid")
    filter_regex: str = Field(r".*\..*", alias="canal.instance.filter.regex")
    client_filter: Literal["intersection", "override"] = Field("intersection", alias="sluice.client.filter")
    ddl_entries: Literal["statement", "table"] = Field("statement", alias="sluice.ddl.entries")
    filter_black_regex: str = Field(r"mysql\.slave_.*", alias="canal.instance.filter.black.regex")
    buffer_size: Positive = Field(16384, alias="canal.instance.memory.buffer.size")
    buffer_memunit: Positive = Field(1024, alias="canal.instance.memory.buffer.memunit")
    batch_mode: Annotated[Literal["MEMSIZE", "ITEMSIZE"], Upper] = Field(
        "MEMSIZE", alias="canal.instance.memory.batch.mode"
    )
    tsdb: bool = Field(True, alias="canal.instance.tsdb.enable")
    tsdb_snapshot_hours: Positive = Field(24, alias="canal.instance.tsdb.snapshot.interval")
    tsdb_expire_hours: Positive = Field(360, alias="canal.instance.tsdb.snapshot.expire")
    ssl_mode: SslMode = Field("PREFERRED", alias="canal.instance.master.sslMode")
    ssl_ca: Path | None = Field(None, alias="sluice.ssl.ca")
    ssl_cert: Path | None = Field(None, alias="sluice.ssl.cert")
    ssl_key: Path | None = Field(None, alias="sluice.ssl.key")
    rsa_public_key: Path | None = Field(None, alias="sluice.rsa.publicKey")
    lazy: bool = Field(False, alias="canal.instance.global.lazy")  # canal.instance.{destination}.lazy overrides it
    flush_ms: Positive = Field(1000, alias="canal.zookeeper.flush.period")
    heartbeat_seconds: Annotated[float, Field(gt=0)] = Field(5.0, alias="sluice.heartbeat.seconds")
    dump_shared: bool = Field(True, alias="sluice.dump.shared")
    lease_seconds: Annotated[float, Field(gt=0)] = Field(60.0, alias="sluice.lease.seconds")
    clients: Clients = Field((1001,), alias="sluice.clients", min_length=1)
    zero_dates: Literal["fail", "null", "string"] = Field("fail", alias="sluice.zero.dates")
    block_bytes: Annotated[int, Field(ge=4096)] = Field(262144, alias="sluice.block.bytes")
    store_bytes: Natural | Literal["auto"] = Field("auto", alias="sluice.store.bytes")  # what `store.disk.room` says
    store_dir: Path | None = Field(None, alias="sluice.store.dir")
    store_retention_hours: Annotated[float, Field(ge=0)] = Field(24.0, alias="sluice.store.retention")
    store_retention_bytes: Natural | None = Field(None, alias="sluice.store.retention.bytes")
    ddl_isolation: bool = Field(False, alias="canal.instance.get.ddl.isolation")
    tcp_user: str = Field("", alias="canal.user")
    tcp_passwd: Annotated[SecretStr, AfterValidator(_hashed)] = Field(SecretStr(""), alias="canal.passwd")
    tcp_anyone: bool = Field(False, alias="sluice.tcp.anyone")
    filter_field: FieldMap = Field({}, alias="canal.instance.filter.field")
    filter_black_field: FieldMap = Field({}, alias="canal.instance.filter.black.field")
    filter_query_dcl: bool = Field(False, alias="canal.instance.filter.query.dcl")
    filter_query_dml: bool = Field(False, alias="canal.instance.filter.query.dml")
    filter_query_ddl: bool = Field(False, alias="canal.instance.filter.query.ddl")
    filter_table_error: bool = Field(False, alias="canal.instance.filter.table.error")
    filter_rows: bool = Field(False, alias="canal.instance.filter.rows")
    filter_transaction_entry: bool = Field(False, alias="canal.instance.filter.transaction.entry")
    filter_dml_insert: bool = Field(False, alias="canal.instance.filter.dml.insert")
    filter_dml_update: bool = Field(False, alias="canal.instance.filter.dml.update")
    filter_dml_delete: bool = Field(False, alias="canal.instance.filter.dml.delete")
    queue: QueueConfig | None = None  # where canal.serverMode is a message queue

    @property
    def host(self) -> str:
        return self.address.partition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.partition(":")[2] or 3306)

    @property
    def sources(self) -> tuple[str, ...]:
        """`host:port` of the master and, where there is one, of the standby."""
        return tuple(_with_port(address) for address in (self.address, self.standby_address) if address)

    @property
    def capacity_bytes(self) -> int:
        """The ring's size with MEMSIZE; with ITEMSIZE a bound that only keeps memory from running out."""
        return self.buffer_size * (self.buffer_memunit if self.batch_mode == "MEMSIZE" else _ITEM_BYTES)

    @property
    def capacity_items(self) -> int | None:
        return self.buffer_size if self.batch_mode == "ITEMSIZE" else None

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if (self.ssl_cert is None) != (self.ssl_key is None):
            raise ValueError("sluice.ssl.cert and sluice.ssl.key must be set together")
        return self

    @model_validator(mode="after")
    def _store_with_directory(self) -> Self:
        if self.store_bytes not in (0, "auto") and self.store_dir is None:
            raise ValueError("sluice.store.bytes needs sluice.store.dir")
        return self

    @field_validator("standby_address")
    @classmethod
    def _not_the_master(cls, value: str, known: ValidationInfo) -> str:
        if value and _with_port(value) == _with_port(str(known.data.get("address", ""))):
            raise ValueError("the standby has the master's address")
        return value


def _with_port(address: str) -> str:
    host, _, port = address.partition(":")
    return f"{host}:{int(port or 3306)}"


_STOCK_ADMIN = "4ACFE3202A5FF5CF467898FC58AAB1D615029441"  # "admin", which everybody knows
_ITEM_BYTES = 1 << 20
SERVICE_KEYS = frozenset(str(field.alias) for field in ServiceConfig.model_fields.values() if field.alias)
INSTANCE_KEYS = frozenset(str(field.alias) for field in InstanceConfig.model_fields.values() if field.alias)
