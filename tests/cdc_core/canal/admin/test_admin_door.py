"""Canal's admin port in front of real destinations."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_core.canal.admin import AdminDoor
from cdc_core.canal.admin import door as admin_door
from cdc_core.canal.protocol.admin import AdminType
from cdc_core.canal.protocol.declared import (
    Ack,
    AdminPacket,
    ClientAuth,
    Handshake,
    InstanceAdmin,
    LogAdmin,
    ServerAdmin,
)
from cdc_core.canal.protocol.frames import framed
from cdc_core.canal.protocol.scramble import stored, token
from cdc_core.config import load_service
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer

pytestmark = pytest.mark.integration


class AdminClient:
    def __init__(self, port: int, password: str = "secret") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        seed = Handshake.FromString(self._packet().body).seeds
        login = ClientAuth(username="admin", password=token(password, seed).encode())
        self.login = self.ask(AdminType.CLIENTAUTHENTICATION, login)

    def ask(self, kind: int, body: object) -> tuple[int, str]:
        packet = AdminPacket(type=kind, body=body.SerializeToString())  # type: ignore[attr-defined]
        self._socket.sendall(framed(packet.SerializeToString()))
        ack = Ack.FromString(self._packet().body)
        return ack.error_code, ack.error_message

    def server(self, action: str) -> str:
        return self.ask(AdminType.SERVER, ServerAdmin(action=action))[1]

    def instance(self, action: str) -> str:
        return self.ask(AdminType.INSTANCE, InstanceAdmin(destination="shop", action=action))[1]

    def _packet(self) -> AdminPacket:
        size = int.from_bytes(self._exactly(4), "big")
        return AdminPacket.FromString(self._exactly(size))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the connection ended"
            data += part
        return data


@pytest.fixture
def server(mysql8: MySqlServer, tmp_path: Path) -> Iterator[CanalServer]:
    (tmp_path / "shop").mkdir()
    (tmp_path / "canal.properties").write_text(f"canal.admin.passwd = {stored('secret')}\n")
    (tmp_path / "shop" / "instance.properties").write_text(
        f"canal.instance.master.address = {mysql8.host}:{mysql8.port}\n"
        f"canal.instance.dbUsername = {mysql8.user}\ncanal.instance.dbPassword = {mysql8.password}\n"
    )
    config, _ = load_service(tmp_path)
    assert config.serves_admin
    server = CanalServer(config, tmp_path)
    server.start()
    yield server
    server.stop()


def test_destinations_are_seen_started_and_stopped(server: CanalServer) -> None:
    """What canal-admin asks, and that a wrong password asks nothing; a stopped door ends its connections."""
    passwd = server.config.admin_passwd.get_secret_value()
    door = AdminDoor(server, "127.0.0.1", 0, "admin", passwd)
    door.start()
    assert AdminClient(door.port, "guess").login == (300, "auth failed for user:admin")
    client = AdminClient(door.port)
    assert client.login == (0, "")
    assert (client.server("check"), client.server("list"), client.instance("check")) == ("1", "shop", "1")
    assert client.instance("stop") == "1"
    assert (client.server("list"), client.instance("check")) == ("", "0")
    assert (client.server("start"), client.server("list")) == ("1", "shop")
    assert (client.instance("restart"), client.instance("release"), client.instance("check")) == ("1", "1", "1")
    assert client.ask(AdminType.LOG, LogAdmin(type="server", action="file"))[0] == 0
    assert client.ask(AdminType.INSTANCE, InstanceAdmin(destination="none", action="check"))[0] == 400
    door.stop()
    with pytest.raises((AssertionError, OSError)):
        client.server("check")


def test_connections_that_never_log_in_hold_no_place(server: CanalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty connections of one byte: canal-admin gets in at once, and they end when the time for a login is over."""
    monkeypatch.setattr(admin_door, "_LOGIN_SECONDS", 2.0)
    door = AdminDoor(server, "127.0.0.1", 0, "admin", server.config.admin_passwd.get_secret_value())
    door.start()
    idle = [socket.create_connection(("127.0.0.1", door.port), 10) for _ in range(40)]
    for one in idle[-16:]:
        one.sendall(b"\0")
    client = AdminClient(door.port)
    assert (client.login, client.server("check")) == ((0, ""), "1")
    idle[-1].settimeout(5)
    while idle[-1].recv(4096):
        pass
    assert client.server("check") == "1"
    door.stop()
    for one in idle:
        one.close()


@pytest.mark.parametrize("passwd", ["", "4acfe3202a5ff5cf467898fc58aab1d615029441"])
def test_no_password_and_the_stock_one_keep_it_closed(passwd: str, tmp_path: Path) -> None:
    """Nobody gets in with what everybody knows."""
    (tmp_path / "canal.properties").write_text(f"canal.admin.passwd = {passwd}\n")
    config, _ = load_service(tmp_path)
    assert not config.serves_admin
