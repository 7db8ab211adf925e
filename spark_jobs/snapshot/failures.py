"""Translates errors of the server or the network, while a table is read, into Sluice's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from cdc_core.errors import SourceError, SourceUnavailable
from spark_jobs.snapshot.source import Source, connect

READ_AGAIN = "read the table again; a snapshot goes on where it was"
_PASSING = (pymysql.err.OperationalError, pymysql.err.InterfaceError, pymysql.err.InternalError)
_HINTS = {
    **dict.fromkeys(
        (1044, 1045, 1142, 1143, 1227), "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* to the account."
    ),
    **dict.fromkeys((1049, 1054, 1146, 1176), "The table was altered or dropped meanwhile: {again}."),
    **dict.fromkeys((1153, 1301), "Raise max_allowed_packet at the source above the largest row, then {again}."),
    **dict.fromkeys((1295, 1461), "Raise max_prepared_stmt_count at the source, then {again}."),
    **dict.fromkeys(
        (1030, 1033, 1034, 1035, 1168, 1194, 1195, 1812, 1814),
        "CHECK TABLE and REPAIR TABLE at the source, or leave the table out (canal.instance.filter.black.regex).",
    ),
    **dict.fromkeys((1317, 1969, 3024), "Do not kill the query, nor limit its time (max_execution_time), and {again}."),
}


def source_error(
    error: pymysql.MySQLError, source: Source, what: str, again: str = "copy the table again"
) -> SourceError | SourceUnavailable:
    """Returns Sluice's error. `what` was read: a table, or a chunk of it. `again`: how to start the reading again."""
    code, text = (error.args[0], error.args[-1]) if error.args else (0, error)
    place = f"{source.address} {what}"
    if code in _HINTS:
        return SourceError(
            f"the rows may not be read ({code}): {text}", place=place, hint=_HINTS[code].format(again=again)
        )
    if isinstance(error, _PASSING):
        message = f"the source went away ({code}): {text}"
        if "timed out" in str(text):
            hint = f"See what keeps it busy or the table locked (SHOW PROCESSLIST), and {again}."
            return SourceUnavailable(message, place=place, hint=hint)
        return SourceUnavailable(message, place=place, hint=f"See that it runs, and {again}.")
    return SourceError(f"the source answers ({code}): {text}", place=place, hint="Correct the cause that it names.")


@contextmanager
def asked(source: Source, what: str, again: str = READ_AGAIN) -> Iterator[pymysql.Connection[Any]]:
    """Yields a connection whose errors become Sluice's. `what` is read; `again`: how to start the reading again."""
    try:
        with closing(connect(source)) as connection:
            yield connection
    except pymysql.MySQLError as error:
        raise source_error(error, source, what, again) from error
