"""Canal's admin protocol: bytes in, bytes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.canal.protocol.admin import AdminDialogue, AdminRequest, AdminType, UnknownAction
from cdc_core.canal.protocol.declared import Ack, AdminPacket, ClientAuth, InstanceAdmin, ServerAdmin
from cdc_core.canal.protocol.frames import framed
from cdc_core.canal.protocol.scramble import stored, token
from cdc_core.errors import UnknownDestination

SEED = b"01234567"


def _answer(request: AdminRequest) -> str:
    if request.action == "fly":
        raise UnknownAction("fly is unknown")
    if request.destination == "nowhere":
        raise UnknownDestination("no destination 'nowhere'", hint="Name one.")
    return f"{request.kind.name} {request.action} {request.destination}".strip()


def _dialogue() -> AdminDialogue:
    return AdminDialogue("admin", stored("secret"), _answer, SEED)


def _sent(kind: int, body: object) -> bytes:
    return framed(AdminPacket(type=kind, body=body.SerializeToString()).SerializeToString())  # type: ignore[attr-defined]


def _login(user: str = "admin", password: str = "secret") -> bytes:
    auth = ClientAuth(username=user, password=token(password, SEED).encode())
    return _sent(AdminType.CLIENTAUTHENTICATION, auth)


def _ack(answer: bytes) -> tuple[int, str]:
    packet = AdminPacket.FromString(answer[4:])
    assert (packet.type, packet.version) == (AdminType.ACK, 1)
    ack = Ack.FromString(packet.body)
    return ack.error_code, ack.error_message


def test_requests_and_their_answers() -> None:
    """After the login each request has one answer, whatever the cuts between packets."""
    dialogue = _dialogue()
    stream = _login() + _sent(AdminType.SERVER, ServerAdmin(action="list"))
    stream += _sent(AdminType.INSTANCE, InstanceAdmin(destination="shop", action="check"))
    stream += _sent(AdminType.INSTANCE, InstanceAdmin(destination="nowhere", action="check"))
    stream += _sent(AdminType.SERVER, ServerAdmin(action="fly"))
    stream += _sent(17, ServerAdmin())
    found = [_ack(answer) for at in range(len(stream)) for answer in dialogue.feed(stream[at : at + 1])]
    assert found[:3] == [(0, ""), (0, "SERVER list"), (0, "INSTANCE check shop")]
    assert found[3][0] == 400
    assert "nowhere" in found[3][1]
    assert found[4:] == [(301, "fly is unknown"), (301, "packet type: 17 is NOT supported!")]
    assert not dialogue.over


@pytest.mark.parametrize("first", [_login(password="guess"), _login(user="root"), _sent(4, ServerAdmin(action="list"))])
def test_nobody_asks_without_the_password(first: bytes) -> None:
    """A wrong password, another user, no login: one refusal, and the connection ends."""
    dialogue = _dialogue()
    answers = [_ack(answer) for answer in dialogue.feed(first + _sent(4, ServerAdmin(action="list")))]
    assert [code for code, _ in answers] == [300]
    assert dialogue.over


@given(st.binary(max_size=400))
def test_anything_else_ends_the_connection_or_waits(data: bytes) -> None:
    """Random bytes never raise, and never get anything done."""
    dialogue = _dialogue()
    for answer in dialogue.feed(data):
        assert _ack(answer)[0] in (300, 400)
