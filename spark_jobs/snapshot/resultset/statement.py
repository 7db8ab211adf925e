"""Executes a SELECT as a prepared statement, over a connection of pymysql whose socket then carries the packets.

Source: MySQL source documentation, "COM_STMT_PREPARE", "COM_STMT_EXECUTE".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR

from spark_jobs.snapshot.resultset.answers import Answer
from spark_jobs.snapshot.resultset.packets import Packets, Receive

_END = 0xFE
_NUMBER = struct.Struct("<I")
_EXECUTE = struct.Struct("<IBI")  # statement, no cursor, one execution


@contextmanager
def executed(connection: pymysql.Connection[Any], sql: str, size: int) -> Iterator[tuple[list[Answer], Packets]]:
    """Yields the columns of the result, and its packets: rows come next. `size`: bytes of their buffer.

    Raises pymysql's errors. The connection takes no other command until all rows are read. The statement ends with the
    block; one that ends by an error leaves it to the end of the connection.
    """
    number = _prepared(connection, sql)
    _send(connection, COMMAND.COM_STMT_EXECUTE, _EXECUTE.pack(number, 0, 1))
    packets = Packets(_receiver(connection), size)
    yield answers(packets, deprecate_eof=_without_eof(connection)), packets
    _send(connection, COMMAND.COM_STMT_CLOSE, _NUMBER.pack(number))  # it has no answer


def answers(packets: Packets, *, deprecate_eof: bool) -> list[Answer]:
    """The columns of a result, from the packets before its rows."""
    head = packets.next()
    count = head[0] if len(head) == 1 else int.from_bytes(head[1:], "little")
    found = [Answer.parse(packets.next()) for _ in range(count)]
    if not deprecate_eof:
        packets.next()
    return found


def _prepared(connection: pymysql.Connection[Any], sql: str) -> int:
    """The statement's number."""
    _send(connection, COMMAND.COM_STMT_PREPARE, sql)
    head = connection._read_packet().get_all_data()  # type: ignore[no-untyped-call]
    number, columns = struct.unpack_from("<IH", head, 1)
    for _ in range(columns + (not _without_eof(connection))):
        connection._read_packet()  # type: ignore[no-untyped-call]
    return int(number)


def _without_eof(connection: pymysql.Connection[Any]) -> bool:
    """Whether no EOF packet follows the columns, as the client may ask for."""
    asked, known = connection.client_flag, connection.server_capabilities  # type: ignore[attr-defined]
    return bool(asked & known & CLIENT.DEPRECATE_EOF)


def _send(connection: pymysql.Connection[Any], command: int, payload: str | bytes) -> None:
    connection._execute_command(command, payload)  # type: ignore[attr-defined]


def _receiver(connection: pymysql.Connection[Any]) -> Receive:
    sock = connection._sock  # type: ignore[attr-defined]

    def receive(into: memoryview) -> int:
        try:
            return int(sock.recv_into(into))
        except TimeoutError as error:
            text = f"it sent nothing for {sock.gettimeout():g} seconds (timed out)"
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, text) from error
        except OSError as error:
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"the connection broke: {error}") from error

    return receive
