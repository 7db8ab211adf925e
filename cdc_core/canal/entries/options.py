"""What of a destination becomes entries: Canal's filter keys, and the client's own filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def _all_tables(_database: str, _table: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Options:
    """`wanted(database, table)` says which tables the client gets. `fields` and `black_fields`: by full name of the
    table in capitals, the columns in capitals that are shown or left out (`canal.instance.filter.field`,
    `.black.field`). The others are `canal.instance.filter.*` of the same names. `gtid`: entries name the
    GTID of their transaction (`canal.instance.gtidon`). `ddl_by_table`: a DDL statement has an entry for each of its
    tables (`sluice.ddl.entries`), else one, as in Canal."""

    wanted: Callable[[str, str], bool] = _all_tables
    fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    black_fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    gtid: bool = False
    ddl_by_table: bool = False
    query_dcl: bool = False
    query_dml: bool = False
    query_ddl: bool = False
    rows: bool = False
    table_error: bool = False
    transaction_entry: bool = False
    dml_insert: bool = False
    dml_update: bool = False
    dml_delete: bool = False

    def shows(self, table: str, column: str) -> bool:
        """Whether a column of a table (by full name) is among the entries' columns."""
        if shown := self.fields.get(table.upper()):
            return column.upper() in shown
        return column.upper() not in self.black_fields.get(table.upper(), ())
