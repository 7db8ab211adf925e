"""Connecting: ways of authentication, TLS in all modes, and errors with their remedy."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from cdc_core.errors import ConfigError, SourceError, SourceUnavailable
from cdc_core.source.connection import connect, version_of
from cdc_core.source.settings import SourceSettings, SslMode
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import free_port, settings_of

SECRET = "s3cret-pass"
Key = rsa.RSAPrivateKey


def cipher(settings: SourceSettings) -> str:
    """The cipher of a connection with these settings; empty without TLS."""
    conn = connect(settings)
    with conn, conn.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
        return str(cursor.fetchone()[1])


def certificate(name: str, issuer: tuple[x509.Name, Key] | None, address: str, folder: Path) -> tuple[x509.Name, Key]:
    """A certificate for an address, in PEM files of that name; its own issuer without one."""
    key, subject = rsa.generate_private_key(65537, 2048), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    issuer_name, issuer_key = issuer or (subject, key)
    built = (
        x509.CertificateBuilder(issuer_name, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return subject, key


@pytest.fixture(scope="module")
def tls(new_mysql: Callable[..., MySqlServer], tmp_path_factory: pytest.TempPathFactory) -> tuple[MySqlServer, Path]:
    """A server with a certificate for its address, and the folder of the CA; `other` has a CA that signed nothing."""
    folder = tmp_path_factory.mktemp("tls")
    authority = certificate("ca", None, "127.0.0.1", folder)
    certificate("server", authority, "127.0.0.1", folder)
    certificate("other", None, "127.0.0.1", folder)
    files = {"ssl_ca": "ca.pem", "ssl_cert": "server.pem", "ssl_key": "server.key"}
    return new_mysql("8.0.31", **{option: str(folder / name) for option, name in files.items()}), folder


def test_the_password_is_hidden() -> None:
    """The repr of settings does not show it."""
    assert SECRET not in repr(SourceSettings("h", 1, "u", SECRET))


def test_a_server_id_is_made_up_once() -> None:
    """It stays with its settings and gives the same uuid each time."""
    made = SourceSettings("h", 1, "u", SECRET).identified()
    assert made.slave_id > 0
    assert made.identified() == made
    assert made.replica_uuid == replace(made).replica_uuid != replace(made, slave_id=7).replica_uuid


@pytest.mark.integration
@pytest.mark.parametrize("plugin", ["mysql_native_password", "caching_sha2_password", "sha256_password"])
@pytest.mark.parametrize("mode", [SslMode.DISABLED, SslMode.REQUIRED])
def test_ways_of_authentication(mysql8: MySqlServer, plugin: str, mode: SslMode) -> None:
    """With TLS and without."""
    user = f"u_{plugin[:6]}_{mode[:3]}"
    mysql8.execute(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY '{SECRET}'")
    settings = settings_of(mysql8, user=user, password=SECRET, ssl_mode=mode)
    assert bool(cipher(settings)) is (mode is SslMode.REQUIRED)


@pytest.mark.integration
def test_tls_modes(tls: tuple[MySqlServer, Path]) -> None:
    """Host name and CA are verified where the mode asks for it."""
    server, folder = tls
    settings = settings_of(server, ssl_ca=str(folder / "ca.pem"))
    for mode in (SslMode.PREFERRED, SslMode.REQUIRED, SslMode.VERIFY_CA, SslMode.VERIFY_IDENTITY):
        assert cipher(replace(settings, ssl_mode=mode))
    assert cipher(replace(settings, ssl_mode="DISABLED")) == ""
    assert cipher(replace(settings, host="localhost", ssl_mode="verify_ca"))
    for wrong in ({"host": "localhost"}, {"ssl_ca": str(folder / "other.pem")}):
        with pytest.raises(SourceError, match="TLS") as caught:
            connect(replace(settings, ssl_mode=SslMode.VERIFY_IDENTITY, **wrong))  # type: ignore[arg-type]
        assert server.password not in str(caught.value)


@pytest.mark.integration
def test_a_server_without_tls(mysql57: MySqlServer) -> None:
    """PREFERRED goes on without TLS; REQUIRED is an error that says so."""
    if cipher(settings_of(mysql57)):
        pytest.skip("this 5.7 server has TLS")
    with pytest.raises(SourceError, match="TLS"):
        connect(settings_of(mysql57, ssl_mode=SslMode.REQUIRED))


@pytest.mark.integration
def test_a_wrong_password_is_named(mysql8: MySqlServer) -> None:
    """The error has the account and the remedy, never the password."""
    with pytest.raises(SourceError) as caught:
        connect(settings_of(mysql8, password="wrong-password"))
    assert not isinstance(caught.value, SourceUnavailable)
    assert caught.value.place == f"{mysql8.user}@{mysql8.host}:{mysql8.port}"
    assert f"ALTER USER '{mysql8.user}'" in caught.value.hint
    assert "wrong-password" not in str(caught.value)


def test_an_unreachable_server_is_worth_another_try() -> None:
    """It is a SourceUnavailable with the address."""
    port = free_port()
    with pytest.raises(SourceUnavailable) as caught:
        connect(SourceSettings("127.0.0.1", port, "u", SECRET, connect_timeout=1))
    assert caught.value.place == f"127.0.0.1:{port}"
    assert SECRET not in str(caught.value)


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    """An unknown mode, and a CA that cannot be read."""
    with pytest.raises(ConfigError, match="MAYBE"):
        connect(SourceSettings("127.0.0.1", 1, "u", SECRET, ssl_mode="MAYBE"))
    with pytest.raises(ConfigError) as caught:
        connect(SourceSettings("127.0.0.1", 1, "u", SECRET, ssl_mode="REQUIRED", ssl_ca=str(tmp_path / "none.pem")))
    assert "none.pem" in caught.value.place


@pytest.mark.integration
def test_versions(mysql8: MySqlServer, mariadb: MySqlServer) -> None:
    """MariaDB is told from MySQL, without the prefix of its greeting."""
    mysql, maria = (version_of(connect(settings_of(server))) for server in (mysql8, mariadb))
    assert (mysql.flavor, mysql.number) == ("mysql", (8, 0, 31))
    assert maria.mariadb
    assert maria.number >= (10, 11, 0)
