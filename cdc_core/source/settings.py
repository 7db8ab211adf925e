"""How to reach a MySQL server, and with which account."""

from __future__ import annotations

import secrets
import socket
import uuid
import zlib
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cdc_core.config.models import InstanceConfig
from cdc_core.source.password_command import PasswordCommand

_NAMESPACE = uuid.UUID("6a8f0f0e-7a1c-4d0f-9f43-5b1c1d0c7e55")


class SslMode(StrEnum):
    """As in MySQL's own clients. PREFERRED falls back to no TLS; VERIFY_IDENTITY also checks the host name."""

    DISABLED = "DISABLED"
    PREFERRED = "PREFERRED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """`slave_id` 0: a random one. `receive_buffer` and `block_bytes` are in bytes, times in seconds."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    slave_id: int = 0
    ssl_mode: SslMode | str = SslMode.PREFERRED
    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    public_key: str = ""  # path of the server's RSA key
    heartbeat_seconds: float = 5.0
    connect_timeout: float = 10
    so_timeout: float = 30
    receive_buffer: int = 1 << 20
    block_bytes: int = 262144
    by_gtid: bool = False  # dumps start after the GTID set of their position, if it has one
    password_command: PasswordCommand | None = None  # prints the password, in the place of `password`
    identity: str = ""  # our name among the server's replicas; empty: the name of this host

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def account(self) -> str:
        return f"{self.user}@{self.address}"

    @property
    def report_host(self) -> str:
        """Our name in SHOW REPLICAS."""
        return (self.identity or socket.gethostname())[:60]

    @property
    def replica_uuid(self) -> str:
        """The same for one identity and server id, so that the server ends the dump of an earlier process."""
        return str(uuid.uuid5(_NAMESPACE, f"{self.report_host}/{self.slave_id}"))

    def identified(self) -> SourceSettings:
        """These settings with a server id: their own, or a random one above the ids that people choose."""
        return self if self.slave_id else replace(self, slave_id=(1 << 30) + secrets.randbelow(1 << 31))


def source_settings(config: InstanceConfig, address: str = "") -> SourceSettings:
    """How to reach the server at `address`, `host:port`; without it the master."""
    host, _, port = (address or config.address).partition(":")
    return SourceSettings(
        host=host,
        port=int(port or 3306),
        user=config.user,
        password=config.password.get_secret_value(),
        password_command=PasswordCommand.parse(config.password_command, config.password_seconds),
        slave_id=config.slave_id,
        ssl_mode=config.ssl_mode,
        ssl_ca=str(config.ssl_ca or ""),
        ssl_cert=str(config.ssl_cert or ""),
        ssl_key=str(config.ssl_key or ""),
        public_key=str(config.rsa_public_key or ""),
        heartbeat_seconds=config.heartbeat_seconds,
        block_bytes=config.block_bytes,
        by_gtid=config.gtid_mode,
        identity=_identity(config),
    )


def _identity(config: InstanceConfig) -> str:
    """What the source knows this replica by: servers that share a destination are one replica, two destinations on one
    host are two."""
    where = f"{zlib.crc32(config.zk_servers.encode()):08x}" if config.zk_servers else socket.gethostname()[:20]
    return f"sluice-{config.destination[:30]}@{where}"
