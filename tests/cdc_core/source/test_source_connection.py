"""Connecting: ways of authentication, TLS in all modes, and errors with their remedy."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from cdc_core.errors import ConfigError, SourceError, SourceUnavailable
from cdc_core.source.connection import connect, source_error, version_of
from cdc_core.source.password_command import PasswordCommand
from cdc_core.source.settings import SourceSettings, SslMode
from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import free_port, settings_of

SECRET = "s3cret-pass"
SALT = b"12345678abcdefghijkl"
OAEP = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
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
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
def test_a_pinned_key(mysql8: MySqlServer, tmp_path: Path, plugin: str) -> None:
    """Without TLS the password is encrypted with the key of the file: the server's own fits, another one does not."""
    user, own, other = f"pinned_{plugin[:6]}", tmp_path / "own.pem", tmp_path / "other.pem"
    mysql8.execute(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY '{SECRET}'")
    with mysql8.root() as root, root.cursor() as cursor:
        cursor.execute("SHOW STATUS LIKE 'Caching_sha2_password_rsa_public_key'")
        own.write_text(cursor.fetchone()[1])
    other.write_bytes(public_key(rsa.generate_private_key(65537, 2048)))
    settings = settings_of(mysql8, user=user, password=SECRET, ssl_mode=SslMode.DISABLED)
    with pytest.raises(SourceError) as caught:
        connect(replace(settings, public_key=str(other)))
    assert "sluice.rsa.publicKey" in caught.value.hint
    with connect(replace(settings, public_key=str(own))) as conn:
        assert conn.fetched_key is None  # type: ignore[attr-defined]


def public_key(key: Key) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(
    ("plugin", "then"),
    [
        ("caching_sha2_password", b"\x01\x04"),  # asks for a full authentication
        ("sha256_password", b""),
        ("mysql_native_password", b"\xfemysql_clear_password\x00"),
        ("caching_sha2_password", b"\xfemysql_clear_password\x00"),
        ("caching_sha2_password", b"\xfedialog\x00\x04Password: "),
        ("mysql_native_password", b"\xfesha256_password\x00" + SALT + b"\x00"),
    ],
)
@pytest.mark.parametrize("mode", [SslMode.DISABLED, SslMode.PREFERRED])
def test_who_answers_in_the_servers_place_gets_no_password(
    tmp_path: Path, plugin: str, then: bytes, mode: SslMode
) -> None:
    """A server without TLS that offers a key of its own, or asks for the password in clear. With a pinned key what it
    gets can be read by nobody but the true server."""
    true, own = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    pinned = tmp_path / "key.pem"
    pinned.write_bytes(public_key(true))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard: list[bytes] = []
        arguments = (listener, plugin, then, public_key(own), heard)
        impostor = threading.Thread(target=_impostor, args=arguments, daemon=True)
        impostor.start()
        port = listener.getsockname()[1]
        settings = SourceSettings("127.0.0.1", port, "u", SECRET, ssl_mode=mode, public_key=str(pinned), so_timeout=5)
        with pytest.raises((SourceError, SourceUnavailable)):
            connect(settings)
        impostor.join(10)
    assert heard
    assert not any(SECRET.encode() in one for one in heard)
    for one in (one[4:] for one in heard if len(one) == 4 + 256):
        with pytest.raises(ValueError, match=r"(?i)decryption"):
            own.decrypt(one, OAEP)
        plain = true.decrypt(one, OAEP)
        assert bytes(a ^ b for a, b in zip(plain, SALT, strict=False)) == SECRET.encode() + b"\0"


def _impostor(listener: socket.socket, plugin: str, then: bytes, key: bytes, heard: list[bytes]) -> None:
    """Greets as a server without TLS, and answers what it hears: first with `then`, later with its key."""
    low, high = (0x8200).to_bytes(2, "little"), (0x0008).to_bytes(2, "little")  # protocol 4.1, secure, plugins
    head = b"\x0a8.0.31\0" + (7).to_bytes(4, "little") + SALT[:8] + b"\0" + low + b"\x2d\x02\x00" + high + b"\x15"
    greeting = head + bytes(10) + SALT[8:] + b"\0" + plugin.encode() + b"\0"
    listener.settimeout(10)
    while not heard:
        connection, _ = listener.accept()
        number = 0
        with connection, suppress(OSError):
            connection.settimeout(5)
            for answer in (greeting, then or b"\x01" + key, b"\x01" + key):
                connection.sendall(len(answer).to_bytes(3, "little") + bytes([number]) + answer)
                if not (data := connection.recv(65536)):
                    break
                heard.append(data)
                number = data[3] + 1


@pytest.mark.parametrize(
    ("mode", "host", "said"),
    [
        (SslMode.VERIFY_IDENTITY, "127.0.0.1", ""),
        (SslMode.VERIFY_CA, "localhost", ""),
        (SslMode.REQUIRED, "127.0.0.1", "in clear .mysql_clear_password., and its certificate is not verified"),
        (SslMode.PREFERRED, "127.0.0.1", "in clear .mysql_clear_password., and its certificate is not verified"),
        (SslMode.DISABLED, "127.0.0.1", "in clear .mysql_clear_password., without TLS"),
    ],
)
def test_a_token_goes_in_clear_to_a_verified_server_alone(tmp_path: Path, mode: SslMode, host: str, said: str) -> None:
    """As a cloud's server asks for it. The error says which keys to set, and another attempt would not help."""
    authority = certificate("ca", None, "127.0.0.1", tmp_path)
    certificate("server", authority, "127.0.0.1", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard: list[bytes] = []
        server = threading.Thread(target=_asks_in_clear, args=(listener, tmp_path, heard), daemon=True)
        server.start()
        command = PasswordCommand(("/bin/echo", f"{SECRET}-{mode}"))
        settings = SourceSettings(
            host, listener.getsockname()[1], "u", "unused", password_command=command, ssl_mode=mode, so_timeout=5,
            ssl_ca=str(tmp_path / "ca.pem"),
        )  # fmt: skip
        if said:
            with pytest.raises(SourceError, match=said) as caught:
                connect(settings)
            assert not isinstance(caught.value, SourceUnavailable)
            assert "sslMode = VERIFY_IDENTITY" in caught.value.hint
        else:
            connect(settings).close()
        server.join(10)
    assert any(SECRET.encode() in one for one in heard) is not bool(said)


def _asks_in_clear(listener: socket.socket, folder: Path, heard: list[bytes]) -> None:
    """A server with TLS for whoever wants it, which asks for the password in clear and agrees to all."""
    low, high = (0x8A00).to_bytes(2, "little"), (0x0008).to_bytes(2, "little")  # protocol 4.1, TLS, secure, plugins
    head = b"\x0a8.0.31\0" + (7).to_bytes(4, "little") + SALT[:8] + b"\0" + low + b"\x2d\x02\x00" + high + b"\x15"
    greeting = head + bytes(10) + SALT[8:] + b"\0mysql_native_password\0"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    listener.settimeout(10)
    connection, _ = listener.accept()
    with suppress(OSError), connection:
        connection.settimeout(5)
        connection.sendall(len(greeting).to_bytes(3, "little") + b"\0" + greeting)
        data = connection.recv(4 + 32)  # the client's next bytes may be there too
        if data[0] == 32:
            connection = context.wrap_socket(connection, server_side=True)
            data = connection.recv(4 + 32)
        connection.recv(65536)
        for answer in (b"\xfemysql_clear_password\x00", *[b"\0\0\0\x02\0\0\0"] * 9):
            connection.sendall(len(answer).to_bytes(3, "little") + bytes([(data[3] + 1) % 256]) + answer)
            if not (data := connection.recv(65536)):
                return
            heard.append(data)


def test_a_refused_token_is_worth_another_try() -> None:
    """The command may print a better one by then; a password of the file stays what it is."""
    denied = pymysql.err.OperationalError(1045, "Access denied for user 'u'")
    token = SourceSettings("h", 1, "u", "", password_command=PasswordCommand(("token",)))
    assert isinstance(source_error(denied, token), SourceUnavailable)
    assert "sluice.source.password.command" in source_error(denied, token).hint
    assert not isinstance(source_error(denied, SourceSettings("h", 1, "u", SECRET)), SourceUnavailable)
    assert not isinstance(source_error(pymysql.err.OperationalError(1044, "x"), token), SourceUnavailable)


@pytest.mark.integration
def test_a_password_that_was_changed_is_asked_for_again(mysql8: MySqlServer, tmp_path: Path) -> None:
    """The command prints another one by then: the same connection attempt succeeds."""
    user, file = "by_command", tmp_path / "password"
    mysql8.execute(f"DROP USER IF EXISTS {user}@'%'", f"CREATE USER {user}@'%' IDENTIFIED BY 'first-{SECRET}'")
    command = PasswordCommand(("/bin/cat", str(file)))
    file.write_text(f"first-{SECRET}\n")
    settings = settings_of(mysql8, user=user, password="wrong", password_command=command)
    connect(settings).close()
    mysql8.execute(f"ALTER USER {user}@'%' IDENTIFIED BY 'second-{SECRET}'")
    file.write_text(f"second-{SECRET}\n")
    connect(settings).close()
    file.write_text("neither")
    mysql8.execute(f"ALTER USER {user}@'%' IDENTIFIED BY 'third-{SECRET}'")
    with pytest.raises(SourceError, match="1045") as caught:
        connect(settings)
    assert "sluice.source.password.command" in caught.value.hint
    assert "neither" not in str(caught.value)


def test_a_public_key_that_is_none(tmp_path: Path) -> None:
    """The error names the key and the file."""
    (tmp_path / "text.pem").write_text("no PEM")
    for name in ("text.pem", "nowhere.pem"):
        with pytest.raises(ConfigError, match=name):
            connect(SourceSettings("127.0.0.1", 1, "u", SECRET, public_key=str(tmp_path / name)))


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
def test_certificates_are_read_to_verify(mysql8: MySqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the system take longer than all else of a connection, so a mode that verifies nothing leaves them."""
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: read.append(1))
    for mode in (SslMode.PREFERRED, SslMode.REQUIRED):
        assert cipher(settings_of(mysql8, ssl_mode=mode))
    assert not read
    with pytest.raises(SourceError, match="TLS"):
        connect(settings_of(mysql8, ssl_mode=SslMode.VERIFY_CA))
    assert read


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
    """MariaDB is distinguished from MySQL, without the prefix of its greeting."""
    mysql, maria = (version_of(connect(settings_of(server))) for server in (mysql8, mariadb))
    assert (mysql.flavor, mysql.number) == ("mysql", (8, 0, 31))
    assert maria.mariadb
    assert maria.number >= (10, 11, 0)
