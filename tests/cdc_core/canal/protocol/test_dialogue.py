"""Dialogues of Canal's protocol as bytes: what a client sends, and what the server makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.canal.protocol import declared, packets
from cdc_core.canal.protocol.declared import PacketType
from cdc_core.canal.protocol.dialogue import Dialogue
from cdc_core.canal.protocol.frames import MAX_REQUEST, framed
from cdc_core.canal.protocol.requests import ClientAck, ClientRollback, Get, HeartBeat, Login, Subscribe, Unsubscribe

NAMES = {"destination": "shop", "client_id": "1001"}
LOGIN = (PacketType.CLIENTAUTHENTICATION, declared.ClientAuth(username="canal", password=b"00ff"))


def packet(kind: int, body: Any = None) -> bytes:
    raw = b"" if body is None else body.SerializeToString()
    return framed(declared.Packet(type=kind, body=raw).SerializeToString())


def ready() -> Dialogue:
    """A dialogue whose client has logged in."""
    dialogue = Dialogue(b"12345678")
    list(dialogue.receive(packet(*LOGIN)))
    dialogue.logged_in()
    return dialogue


def ack_of(frame: bytes) -> Any:
    """The Ack in a frame."""
    outer = declared.Packet.FromString(frame[4:])
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    assert outer.type == PacketType.ACK
    return declared.Ack.FromString(outer.body)


def test_the_server_speaks_first() -> None:
    """The opening is a handshake of version 1 with the seed, byte for byte as Canal's."""
    outer = declared.Packet.FromString(Dialogue(b"abcdefgh").opening()[4:])
    assert (outer.version, outer.type) == (1, PacketType.HANDSHAKE)
    assert declared.Handshake.FromString(outer.body).seeds == b"abcdefgh"


def test_a_login_is_read_once() -> None:
    """Its time-outs are milliseconds; a second one is refused."""
    dialogue = Dialogue(b"12345678")
    auth = declared.ClientAuth(username="canal", password=b"00ff", net_read_timeout=3000, net_write_timeout=500)
    assert list(dialogue.receive(packet(PacketType.CLIENTAUTHENTICATION, auth))) == [Login("canal", "00ff", 3.0, 0.5)]
    assert ack_of(dialogue.logged_in()).error_code == 0
    (answer,) = dialogue.receive(packet(*LOGIN))
    assert ack_of(answer).error_code == 400
    assert dialogue.over


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        (PacketType.SUBSCRIPTION, declared.Sub(**NAMES, filter="a\\..*"), Subscribe("shop", 1001, "a\\..*")),
        (PacketType.UNSUBSCRIPTION, declared.Unsub(**NAMES), Unsubscribe("shop", 1001)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7), Get("shop", 1001, 7, 0.0)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7, timeout=-1, unit=2), Get("shop", 1001, 7, 0.0)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7, timeout=0, unit=2), Get("shop", 1001, 7, None)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7, timeout=250, unit=2), Get("shop", 1001, 7, 0.25)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7, timeout=2, unit=3), Get("shop", 1001, 7, 2.0)),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=7, timeout=2, unit=4), Get("shop", 1001, 7, 120.0)),
        (PacketType.CLIENTACK, declared.ClientAck(**NAMES, batch_id=9), ClientAck("shop", 1001, 9)),
        (PacketType.CLIENTACK, declared.ClientAck(**NAMES, batch_id=-1), ClientAck("shop", 1001, -1)),
        (PacketType.CLIENTROLLBACK, declared.ClientRollback(**NAMES), ClientRollback("shop", 1001, None)),
        (PacketType.CLIENTROLLBACK, declared.ClientRollback(**NAMES, batch_id=9), ClientRollback("shop", 1001, 9)),
        (PacketType.HEARTBEAT, declared.HeartBeat(send_timestamp=5), HeartBeat()),
    ],
)
def test_requests_are_read(kind: int, body: Any, expected: object) -> None:
    """Each packet as a value, whole or byte by byte."""
    assert list(ready().receive(packet(kind, body))) == [expected]
    dialogue = ready()
    found = [one for byte in packet(kind, body) for one in dialogue.receive(bytes([byte]))]
    assert found == [expected]


@pytest.mark.parametrize(
    ("kind", "body", "code", "said"),
    [
        (PacketType.SUBSCRIPTION, declared.Sub(destination="shop"), 401, "destination or clientId is null"),
        (PacketType.GET, declared.Get(client_id="1", fetch_size=1), 401, "destination or clientId is null"),
        (PacketType.GET, declared.Get(**NAMES), 400, "fetch size 0"),
        (PacketType.GET, declared.Get(**NAMES, fetch_size=-(2**31)), 400, "fetch size -2147483648"),
        (PacketType.GET, declared.Get(destination="shop", client_id="x", fetch_size=1), 400, "client id 'x'"),
        (PacketType.GET, declared.Get(destination="shop", client_id="40000", fetch_size=1), 400, "client id '40000'"),
        (PacketType.GET, declared.Get(destination="shop", client_id="1" * 5000, fetch_size=1), 400, "client id '111"),
        (PacketType.CLIENTACK, declared.ClientAck(**NAMES), 402, "batchId should assign value"),
        (PacketType.DUMP, declared.Dump(journal="x"), 400, "packet type: 10 is NOT supported!"),
        (99, None, 400, "packet type: 99 is NOT supported!"),
        (PacketType.CLIENTAUTHENTICATION, declared.ClientAuth(username="x"), 400, "already logged in"),
    ],
)
def test_what_is_no_request_is_answered_and_ends_the_dialogue(kind: int, body: Any, code: int, said: str) -> None:
    """Canal's code and words; nothing after it is read."""
    dialogue = ready()
    (answer,) = dialogue.receive(packet(kind, body) + packet(PacketType.HEARTBEAT))
    found = ack_of(answer)
    assert (found.error_code, said in found.error_message) == (code, True)
    assert dialogue.over
    assert list(dialogue.receive(packet(PacketType.HEARTBEAT))) == []


def test_requests_before_the_login_are_refused() -> None:
    """A GET without a login gets no rows."""
    dialogue = Dialogue(b"12345678")
    (answer,) = dialogue.receive(packet(PacketType.GET, declared.Get(**NAMES, fetch_size=1)))
    assert "log in first" in ack_of(answer).error_message


@pytest.mark.parametrize("size", [-1, MAX_REQUEST + 1, 2**31 - 1])
def test_lengths_that_no_request_has_end_the_dialogue(size: int) -> None:
    """Nothing of such a size is waited for or kept."""
    dialogue = ready()
    (answer,) = dialogue.receive((size & 0xFFFFFFFF).to_bytes(4, "big") + b"x" * 100)
    assert ack_of(answer).error_code == 400
    assert dialogue.over


def test_compressed_packets_are_refused() -> None:
    """Bytes that nobody opens are not taken for a request."""
    raw = declared.Packet(type=PacketType.HEARTBEAT, compression=3).SerializeToString()
    (answer,) = ready().receive(framed(raw))
    assert "compression 3" in ack_of(answer).error_message


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_survived(parts: list[bytes]) -> None:
    """Random bytes, in frames and not, before and after a login: requests or one answer, never another error."""
    for dialogue in (Dialogue(b"12345678"), ready()):
        for part in parts:
            for data in (part, framed(part)):
                found = list(dialogue.receive(data))
                assert sum(isinstance(one, bytes) for one in found) <= 1


def test_a_batch_is_one_frame() -> None:
    """The head and the pieces after it are the Messages that protobuf reads."""
    fields = declared.Messages(messages=[b"one", b"two"]).SerializeToString()
    frame = packets.messages_head(5, len(fields)) + fields
    outer = declared.Packet.FromString(frame[4:])
    assert len(frame) == 4 + int.from_bytes(frame[:4], "big")
    messages = declared.Messages.FromString(outer.body)
    assert (outer.type, outer.version, messages.batch_id, list(messages.messages)) == (7, 1, 5, [b"one", b"two"])
    empty = declared.Packet.FromString(packets.empty_messages()[4:])
    assert declared.Messages.FromString(empty.body).batch_id == -1
