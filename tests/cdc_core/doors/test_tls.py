"""The doors with TLS, over real sockets, with an authority made for the test."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from cdc_core.canal.protocol.scramble import stored
from cdc_core.canal.tcp import TcpDoor
from cdc_core.client.changes import FlightRows, RowsDoor
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust, read_authorities
from cdc_core.config import load_service
from cdc_core.contract.claim import Claim
from cdc_core.doors import connections
from cdc_core.doors.certificate import Certificate, CertificateFiles, certificates
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.errors import ConfigError, ServiceUnavailable, SluiceError
from cdc_core.serve import check_open
from tests.support.canal_client import CanalClient
from tests.support.certificates import Authority
from tests.support.door_double import TABLE, Destination, Server, opened
from tests.support.flight_calls import flight_info, read_split
from tests.support.waiting import until

TOKEN = "s3cret"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path)
    made.issue(1)
    return made


@pytest.fixture
def certificate(authority: Authority) -> Certificate:
    return Certificate(CertificateFiles(authority.certificate, authority.key))


@pytest.fixture
def shop() -> Destination:
    found = Destination()
    found.config.tcp_passwd = found.config.tcp_passwd.__class__(stored("secret"))
    return found


@contextmanager
def served(shop: Destination, certificate: Certificate) -> Iterator[tuple[HttpDoor, FlightDoor]]:
    server = Server(shop)
    http = HttpDoor(server, "127.0.0.1", 0, TOKEN, certificate=certificate)  # type: ignore[arg-type]
    rows = FlightDoor(server, "127.0.0.1", 0, TOKEN, certificate=certificate)  # type: ignore[arg-type]
    with opened(http), opened(rows):
        yield http, rows


def serial(port: int, authority: Authority, protocols: tuple[str, ...] = ()) -> int:
    """The number of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=authority.path)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as made,
    ):
        shown: Any = made.getpeercert()
        return int(shown["serialNumber"], 16)


def test_a_claim_and_its_rows_come_over_tls(shop: Destination, certificate: Certificate, authority: Authority) -> None:
    """HTTP and Flight, with the token, for a client that knows the authority."""
    shop.put(1000)
    trust = Trust(read_authorities(authority.path))
    with (
        served(shop, certificate) as (http, rows),
        Connector(http.url, "shop", flight_url=rows.url, token=TOKEN, trust=trust) as connector,
    ):
        assert (http.url[:8], rows.url[:11]) == ("https://", "grpc+tls://")
        with connector.claim(1000, owner="run-1") as claim:
            assert claim is not None
            assert connector.changes(claim, TABLE).read_all().num_rows == 1000
            read = flight_info(rows.url, claim, TABLE, token=TOKEN, ca=trust.ca)
            (ticket,) = read.tickets
            batches = read_split(rows.url, ticket, token=TOKEN, ca=trust.ca)
            assert sum(batch.num_rows for batch in batches) == 1000
    assert shop.last_acked == 1


def test_a_server_of_another_authority_gets_no_token(
    shop: Destination, certificate: Certificate, tmp_path: Path
) -> None:
    """Neither HTTP nor Flight calls a server whose certificate the client's authority has not signed, nor one without
    TLS."""
    other = Authority(tmp_path, "other")
    shop.put(1)
    claim = shop.claim(1001, 1, 0, "run-1", 60)
    with served(shop, certificate) as (http, rows):
        with (
            Connector(http.url, "shop", token=TOKEN, trust=Trust(other.pem)) as connector,
            pytest.raises(ServiceUnavailable, match="certificate"),
        ):
            connector.status()
        with pytest.raises(SluiceError):
            flight_info(rows.url, claim, TABLE, token=TOKEN, ca=other.pem, timeout_seconds=10)
        with Connector(http.url.replace("https", "http"), "shop", token=TOKEN) as plain, pytest.raises(SluiceError):
            plain.status()


def test_renewed_files_are_used_without_a_restart(
    shop: Destination, certificate: Certificate, authority: Authority
) -> None:
    """By HTTP, TCP and Flight, whose streams go on meanwhile; a client of before reads on."""
    shop.put(200_000)
    claim = shop.claim(1001, 1, 0, "run-1", 60)
    assert claim is not None
    with (
        served(shop, certificate) as (http, rows),
        opened(TcpDoor(Server(shop), "127.0.0.1", 0, certificate=certificate)) as tcp,
    ):  # type: ignore[arg-type]
        (ticket,) = flight_info(rows.url, claim, TABLE, token=TOKEN, ca=authority.pem).tickets
        stream = read_split(rows.url, ticket, token=TOKEN, ca=authority.pem)
        read = next(stream).num_rows
        authority.issue(2)
        assert certificate.renew()
        assert serial(http.port, authority) == serial(tcp.port, authority) == 2
        until(lambda: _flight_serial(rows.port, authority) == 2)
        assert read + sum(batch.num_rows for batch in stream) == 200_000
        (ticket,) = flight_info(rows.url, claim, TABLE, token=TOKEN, ca=authority.pem).tickets
        again = read_split(rows.url, ticket, token=TOKEN, ca=authority.pem)
        assert sum(batch.num_rows for batch in again) == 200_000
        assert not certificate.renew()


def test_reads_go_on_while_a_certificate_is_renewed(
    shop: Destination, certificate: Certificate, authority: Authority
) -> None:
    """The Flight door listens again then: plans and splits that come in that moment are asked for again."""
    shop.put(2_000)
    claim = shop.claim(1001, 1, 0, "run-1", 60)
    assert claim is not None
    over, failed = threading.Event(), list[SluiceError]()

    def read(door: RowsDoor, wanted: Claim) -> None:
        while not over.is_set():
            try:
                tickets = door.info(wanted, TABLE).tickets
                assert sum(batch.num_rows for one in tickets for batch in door.split(one)) == 2_000
            except SluiceError as error:
                failed.append(error)

    with served(shop, certificate) as (_, rows):
        door = RowsDoor(rows.url, TOKEN, authority.pem)
        readers = [threading.Thread(target=read, args=(door, claim)) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(2, 7):
            authority.issue(number)
            assert certificate.renew()
            until(lambda number=number: _flight_serial(rows.port, authority) == number)
        over.set()
        for reader in readers:
            reader.join()
    assert [str(error) for error in failed] == []


def _flight_serial(port: int, authority: Authority) -> int:
    """0 while the door does not listen."""
    try:
        return serial(port, authority, ("h2",))
    except (ConnectionError, ssl.SSLEOFError):
        return 0


def test_half_written_files_are_left_for_the_next_look(certificate: Certificate, authority: Authority) -> None:
    """A certificate whose key is still the one before is not used; it is logged once."""
    before, pem = authority.key.read_bytes(), certificate.pem
    authority.issue(2)
    after = authority.key.read_bytes()
    authority.key.write_bytes(before)
    with capture_logs() as logs:
        assert not certificate.renew()
        assert not certificate.renew()
    assert certificate.pem == pem
    assert len([one for one in logs if "the key does not fit the certificate" in str(one)]) == 1
    authority.key.write_bytes(after)
    assert certificate.renew()


def test_connections_without_a_handshake_or_a_call_end(
    shop: Destination, certificate: Certificate, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each door with TLS, and at Flight's without, before the library would end them; clients with access stay."""
    monkeypatch.setattr(connections, "LOGIN_SECONDS", 1.0)
    shop.put(1)
    claim, server = shop.claim(1001, 1, 0, "run-1", 60), Server(shop)
    assert claim is not None
    with ExitStack() as stack:
        http, rows = stack.enter_context(served(shop, certificate))
        tcp = stack.enter_context(opened(TcpDoor(server, "127.0.0.1", 0, certificate=certificate)))  # type: ignore[arg-type]
        plain = stack.enter_context(opened(FlightDoor(server, "127.0.0.1", 0)))  # type: ignore[arg-type]
        for url, token, ca in ((rows.url, TOKEN, authority.pem), (plain.url, None, "")):
            stack.enter_context(FlightRows(url, token, ca)).info(claim, TABLE)
        client = stack.enter_context(Connector(http.url, "shop", token=TOKEN, trust=Trust(authority.pem)))
        client.status()
        logs = stack.enter_context(capture_logs())
        for port in (http.port, rows.port, tcp.port, plain.port):
            for one in [socket.create_connection(("127.0.0.1", port), 15) for _ in range(3)]:
                while one.recv(4096):  # what is sent before the end
                    pass
                one.close()
            until(lambda port=port: sum(one["ended"] for one in logs if one.get("port") == port) == 3)  # type: ignore[misc]


def test_the_tcp_door_inside_tls(shop: Destination, certificate: Certificate, authority: Authority) -> None:
    """A Canal client behind TLS logs in, and reads why its ack was refused, also when it calls later."""
    with opened(TcpDoor(Server(shop), "127.0.0.1", 0, certificate=certificate)) as door:  # type: ignore[arg-type]
        client = CanalClient(door.port)
        context = ssl.create_default_context(cafile=authority.path)
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        assert client.login("", "secret").error_code == 0
        client.ack(77)
        time.sleep(0.2)
        client.ask()
        assert "batch 77 is not outstanding" in client.acked().error_message
        client.close()


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("sluice.tls.certificate = {folder}/door.pem", "must be set together"),
        ("sluice.tls.key = {folder}/door.key", "must be set together"),
        ("sluice.tls.ca = {folder}/ca.pem", "no effect without"),
        (
            "sluice.tls.certificate = {folder}/no.pem\nsluice.tls.key = {folder}/door.key",
            "No such file",
        ),
        ("sluice.tls.certificate = {folder}/door.pem\nsluice.tls.key = {folder}/other.key", "the key does not fit"),
        ("sluice.tls.certificate = {folder}/door.pem\nsluice.tls.key = {folder}/text", "cannot be used"),
        ("sluice.tcp.cert = {folder}/text\nsluice.tcp.key = {folder}/door.key", "sluice.tcp.cert="),
    ],
)
def test_half_a_configuration_is_refused(authority: Authority, tmp_path: Path, lines: str, why: str) -> None:
    """The error names the key and the file."""
    (tmp_path / "other.key").write_bytes(authority.issued()[1])
    (tmp_path / "text").write_text("no PEM")
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "canal.properties").write_text(lines.format(folder=tmp_path) + "\n")
    with pytest.raises(ConfigError, match=why) as refused:
        certificates(load_service(conf)[0])
    assert "sluice.t" in str(refused.value)


def test_a_token_in_clear_off_loopback_is_said(authority: Authority, tmp_path: Path) -> None:
    """With TLS there is nothing to say."""
    tls = f"sluice.tls.certificate = {authority.certificate}\nsluice.tls.key = {authority.key}\n"
    for lines, warnings in (("", 1), (tls, 0)):
        (tmp_path / "canal.properties").write_text("canal.ip = 0.0.0.0\n" + lines)
        with capture_logs() as logs:
            check_open(load_service(tmp_path)[0], TOKEN)
        assert len(logs) == warnings


def test_authorities_that_are_none(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "ca.pem").write_text("no PEM")
    for name in ("ca.pem", "nowhere.pem"):
        with pytest.raises(ConfigError, match=name):
            read_authorities(tmp_path / name)
