"""The SQL of a history: one statement that closes versions and opens others. Pure functions.

If the first change of a key has the row's values before it, and the history has no version of them, that version is
opened and closed: its start is not known.

Delta skips a late statement if another run went as far or farther. If another run went less far, its rows are in the
history: the statement looks for them, and raises an error.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_jobs.changes.columns import (
    DELETE,
    EPOCH,
    INSERT,
    NTH,
    OP,
    TIME,
    TRUNCATE,
    UPDATE_BEFORE,
    VERSION,
)
from spark_jobs.changes.net import LOGGED, image_op
from spark_jobs.changes.versions import CURRENT, KIND, VALID_FROM, VALID_TO
from spark_jobs.lake.equality import same
from spark_jobs.lake.own_columns import Own, living_at
from spark_jobs.lake.sql import quote
from spark_jobs.lake.types import LakeColumn

AHEAD, NOT_KNOWN = "SLUICE_HISTORY_AHEAD", "CAST(NULL AS TIMESTAMP)"
_AHEAD, _KINDS = "_sluice_ahead", "_sluice_kinds"
_FIRST, _NEXT, _LAST = "_sluice_first", "_sluice_next", "_sluice_last"
_ORDER = ", ".join(LOGGED.order)
_OWN = (VALID_FROM, VALID_TO, CURRENT, EPOCH, VERSION, NTH)


def changes(
    log: str, where: str, columns: Sequence[str], key: Sequence[str], path: str, begins: tuple[int, int | None]
) -> str:
    """Returns a query in brackets: the changes of the history at `path` by the log's rows for which `where` holds.
    `begins`: the epoch of the rows, and the version after which they are. It raises an error in Spark if the history
    is farther."""
    epoch, after = begins
    keys, listed = ", ".join(map(quote, key)), ", ".join(map(quote, columns))
    window = f"(PARTITION BY {keys} ORDER BY {_ORDER})"
    placed = (
        f"SELECT *, row_number() OVER {window} = 1 AS {_FIRST}, lead({TIME}) OVER {window} AS {_NEXT}, "  # noqa: S608
        f"lead({OP}) OVER {window} IS NULL AS {_LAST}, "
        f"{_ahead(path, _later(epoch, after))} AS {_AHEAD} "
        f"FROM {log} WHERE {where}"
    )
    kinds = f"SELECT *, explode({_kinds(key)}) AS {KIND} FROM ({placed})"  # noqa: S608
    return (
        f"(SELECT {listed}, {KIND}, {OP}, CASE WHEN {KIND} = 1 THEN {TIME} END AS {VALID_FROM}, "  # noqa: S608
        f"CASE WHEN {KIND} = 1 THEN {_NEXT} ELSE {TIME} END AS {VALID_TO}, {KIND} = 1 AND {_LAST} AS {CURRENT}, "
        f"{_ORDER} FROM ({kinds}))"
    )


def staged_changes(view: str, path: str, begins: tuple[int, int | None]) -> str:
    """Returns the same for a view over `row_versions`."""
    ahead, raised = _ahead(path, _later(*begins)), f"CAST(raise_error('{AHEAD}: ') AS BOOLEAN)"
    return f"(SELECT * FROM {view} WHERE {ahead} IS NULL OR {raised})"  # noqa: S608


def _later(epoch: int, after: int | None) -> str:
    return f"{EPOCH} = {epoch:d} AND {VERSION} > {-1 if after is None else after:d}"


def _kinds(key: Sequence[str]) -> str:
    """Returns the effect of one image, as an array of kinds."""
    ahead = f"CAST(raise_error('{AHEAD}: ') AS ARRAY<INT>)"
    opens, closes = f"IF({_FIRST}, array(0, 1), array(1))", f"IF({_FIRST}, array(0), CAST(array() AS ARRAY<INT>))"
    return f"CASE WHEN {_AHEAD} IS NOT NULL THEN {ahead} WHEN {image_op(key)} = 1 THEN {opens} ELSE {closes} END"


def _ahead(path: str, where: str) -> str:
    """Returns a query in brackets: the highest version of the history's rows for which `where` holds, or NULL."""
    return f"(SELECT max({VERSION}) FROM delta.{quote(path)} WHERE {where})"  # noqa: S608


def differences(
    path: str,
    merged: str,
    columns: Sequence[LakeColumn],
    key: Sequence[str],
    place: tuple[int, int],
    at: str,
    *,
    begins: bool,
    kept: Collection[str] = (),
) -> str:
    """Returns a query in brackets: the changes that make the current rows of a history those of `merged`, a query in
    brackets with the `columns`. Columns of `kept`, which the source has dropped, make no difference. `at`: their
    time, in SQL. `begins`: the history is empty, so the start of its versions is not known. It raises an error in
    Spark if the history is beyond `place`."""
    on = " AND ".join(f"c.{quote(name)} = m.{quote(name)}" for name in key)
    compared = [column for column in columns if column.name not in kept]
    there, wanted = f"c.{CURRENT} IS NOT NULL", "m._sluice_one IS NOT NULL"
    kinds = (
        f"CASE WHEN {there} AND {wanted} THEN IF({same('c', 'm', compared)}, CAST(array() AS ARRAY<INT>), array(0, 1)) "
        f"WHEN {wanted} THEN array(1) ELSE array(0) END"
    )
    beyond = f"{EPOCH} > {place[0]:d} OR ({EPOCH} = {place[0]:d} AND {VERSION} > {place[1]:d})"
    names = [column.name for column in columns]
    values = [f"coalesce(m.{quote(n)}, c.{quote(n)}) AS {quote(n)}" if n in key else f"m.{quote(n)}" for n in names]
    joined = (
        f"SELECT {', '.join(values)}, {kinds} AS {_KINDS}, {_ahead(path, beyond)} AS {_AHEAD} FROM "  # noqa: S608
        f"(SELECT * FROM delta.{quote(path)} WHERE {CURRENT}) AS c FULL OUTER JOIN "
        f"(SELECT *, 1 AS _sluice_one FROM {merged}) AS m ON {on}"
    )
    since = NOT_KNOWN if begins else at
    raised = f"CAST(raise_error('{AHEAD}: ') AS ARRAY<INT>)"
    exploded = f"SELECT *, explode(IF({_AHEAD} IS NOT NULL, {raised}, {_KINDS})) AS {KIND} FROM ({joined})"  # noqa: S608
    return (
        f"(SELECT *, '{INSERT}' AS {OP}, {since} AS {VALID_FROM}, "  # noqa: S608
        f"CASE WHEN {KIND} = 0 THEN {at} END AS {VALID_TO}, {KIND} = 1 AS {CURRENT}, "
        f"{place[0]:d} AS {EPOCH}, CAST({place[1]:d} AS BIGINT) AS {VERSION}, CAST(-1 AS BIGINT) AS {NTH} "
        f"FROM ({exploded}))"
    )


def rows_of(path: str, version: int, columns: Sequence[str], own: Own, *, gone: bool) -> str:
    """Returns a query in brackets: the living rows of one version of a table, no row if the table is `gone`."""
    listed, rest = ", ".join(map(quote, columns)), " WHERE false" if gone else ""
    return f"(SELECT {listed} FROM {living_at(path, version, own)}{rest})"  # noqa: S608


def merge_versions(
    path: str,
    rows: str,
    columns: Sequence[str],
    key: Sequence[str],
    between: tuple[int, int] | None = None,
    since: str = NOT_KNOWN,
) -> str:
    """Returns one MERGE that closes and opens versions. `between` bounds a key of one integer. `since`: the start, in
    SQL, of a closed version that the history does not have."""
    condition = [f"t.{CURRENT} = true", f"s.{KIND} = 0", *(f"t.{quote(name)} = s.{quote(name)}" for name in key)]
    if between is not None:
        condition.append(f"t.{quote(key[0])} BETWEEN {between[0]} AND {between[1]}")
    written = [quote(name) for name in (*columns, *_OWN)]
    computed = {quote(VALID_FROM): f"IF(s.{KIND} = 0, {since}, s.{VALID_FROM})"}
    values = ", ".join(computed.get(name, f"s.{name}") for name in written)
    return (
        f"MERGE INTO delta.{quote(path)} AS t USING {rows} AS s ON {' AND '.join(condition)} "  # noqa: S608
        f"WHEN MATCHED THEN UPDATE SET t.{VALID_TO} = s.{VALID_TO}, t.{CURRENT} = false "
        f"WHEN NOT MATCHED AND (s.{KIND} = 1 OR s.{OP} IN ('{DELETE}', '{UPDATE_BEFORE}')) "
        f"THEN INSERT ({', '.join(written)}) VALUES ({values})"
    )


def close_all(path: str, place: tuple[int, int], at: str) -> str:
    """Returns an UPDATE that closes all versions at a place, whose time is `at` in SQL. Versions that were opened after
    the place stay, since the statement may be late."""
    before = f"({EPOCH} < {place[0]:d} OR ({EPOCH} = {place[0]:d} AND {VERSION} < {place[1]:d}))"
    return f"UPDATE delta.{quote(path)} SET {VALID_TO} = {at}, {CURRENT} = false WHERE {CURRENT} AND {before}"  # noqa: S608


def first_emptying(log: str, bounds: str) -> str:
    """Returns a query for the first entry that emptied the table: its version, and its time in microseconds."""
    return (
        f"SELECT {VERSION}, unix_micros({TIME}) FROM {log} "  # noqa: S608
        f"WHERE {bounds} AND {OP} = '{TRUNCATE}' ORDER BY {VERSION} LIMIT 1"
    )


def last_time(log: str, epoch: int, version: int) -> str:
    """Returns a query for the time of the last change up to a place, in microseconds."""
    where = f"{EPOCH} < {epoch:d} OR ({EPOCH} = {epoch:d} AND {VERSION} <= {version:d})"
    return f"SELECT unix_micros(max({TIME})) FROM {log} WHERE {where}"  # noqa: S608


def last_known(path: str) -> str:
    """Returns a query for the last time in a history, in microseconds, for use when its log has no row any more."""
    return f"SELECT unix_micros(greatest(max({VALID_FROM}), max({VALID_TO}))) FROM delta.{quote(path)}"  # noqa: S608


def moment(micros: int | None) -> str:
    """Returns a time in SQL."""
    return NOT_KNOWN if micros is None else f"timestamp_micros({micros:d})"
