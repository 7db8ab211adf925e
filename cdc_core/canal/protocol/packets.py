"""What the server sends: handshake, acks, and messages."""

from __future__ import annotations

from cdc_core.canal.protocol.declared import Ack, Handshake, Messages, Packet, PacketType
from cdc_core.canal.protocol.frames import HEAD, framed

OK = 0
BAD_REQUEST = 400  # malformed, refused or failed
NOT_NAMED = 401  # destination or client id is missing
NO_BATCH = 402  # an ack without a batch id
_VERSION = 1


def handshake(seed: bytes) -> bytes:
    """The frame that opens a connection."""
    return _frame(PacketType.HANDSHAKE, Handshake(seeds=seed))


def ack(code: int = OK, message: str = "") -> bytes:
    """The frame that says whether a request was done."""
    return _frame(PacketType.ACK, Ack(error_code=code, error_message=message) if code else Ack())


def empty_messages() -> bytes:
    """The frame that answers a GET for which there is nothing: batch -1."""
    return _frame(PacketType.MESSAGES, Messages(batch_id=-1))


def messages_head(batch_id: int, size: int, source: int = 0) -> bytes:
    """The beginning of the frame of a batch, after which `size` bytes of `messages` fields follow. `source` names the
    binlog that the entries' places are of."""
    batch = Messages(batch_id=batch_id, source=source).SerializeToString()
    body = len(batch) + size
    head = Packet(version=_VERSION, type=PacketType.MESSAGES).SerializeToString() + b"\x2a" + _varint(body) + batch
    return (len(head) + size).to_bytes(HEAD, "big") + bytes(head)


def _frame(kind: PacketType, body: object) -> bytes:
    packet = Packet(version=_VERSION, type=kind, body=body.SerializeToString())  # type: ignore[attr-defined]
    return framed(packet.SerializeToString())


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
