"""Statements at a real server, and the changes that a destination makes of them."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection
from pymysql.constants import ER
from pymysql.err import OperationalError

from cdc_core.destination.capture import Capture
from cdc_core.rows.net import plan_changes, read
from tests.support.captures import CLIENT, claim
from tests.support.waiting import until

Changes = list[tuple[str, int, str, int, int, int]]  # op, id, v, journal, position, row


def run(connection: Connection[Any], *statements: str) -> None:
    """Executes the statements on one connection."""
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def xa(connection: Connection[Any], name: str, *statements: str) -> None:
    """Executes the statements as an XA transaction and leaves it prepared."""
    run(connection, f"XA START {name}", *statements, f"XA END {name}", f"XA PREPARE {name}")


def commit_xa(connection: Connection[Any], name: str) -> None:
    """Commits a prepared transaction, which is unknown to others until the server has ended its session."""

    def committed() -> bool:
        try:
            run(connection, f"XA COMMIT {name}")
        except OperationalError as error:
            if error.args[0] == ER.XAER_NOTA:
                return False
            raise
        return True

    until(committed)


def changes(capture: Capture, rows: int = 1000) -> dict[str, Changes]:
    """The changes of each table, up to the row in `done`."""
    found: dict[str, Changes] = {}
    while "done" not in found:
        one = claim(capture, rows)
        slices = capture.service.slices(CLIENT, one.batch_id)
        for table in one.tables:
            plan = plan_changes(slices, capture.registry, table.name)
            into = found.setdefault(table.name.split(".")[1], [])
            for batch in (batch for split in range(len(plan.splits)) for batch in read(plan, split)):
                for row in batch.to_pylist():
                    into.append(
                        (
                            row["_sluice_op"], row["id"], row.get("v", ""),
                            row["_sluice_journal"], row["_sluice_position"], row["_sluice_row"],
                        )
                    )  # fmt: skip
        capture.service.ack(CLIENT, one.batch_id, one.owner)
    return found


def left(found: Changes) -> dict[int, str]:
    """The rows that the changes leave in an empty table. Positions must rise."""
    orders = [change[3:] for change in found]
    assert orders == sorted(set(orders)) or any(change[0] == "update_after" for change in found)
    table: dict[int, str] = {}
    for op, number, v, *_ in found:
        if op in ("delete", "update_before"):
            assert table.pop(number) == v
        else:
            assert number not in table
            table[number] = v
    return table
