"""A span explained, on a lake without Spark and a binlog that is a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.contract.claim import Claim
from cdc_core.errors import PositionPurged
from cdc_core.position import EntryPosition
from cdc_core.reread.binlog import BinlogReader
from cdc_core.reread.transaction import RowCounts, Transaction
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask, MaskKind
from cdc_core.schema.table import Column, TableSchema
from spark_jobs.changes.columns import OP
from spark_jobs.lake.ledger import Ledger, TableNote
from spark_jobs.lake.state import DESTINATION, RULES, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.client_tables import ClientTables
from spark_jobs.past.explain import Explainer, holding, with_gtid
from spark_jobs.past.noted import PastBatches, Span

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def at(offset: int) -> EntryPosition:
    return EntryPosition("bin.000001", offset)


def transaction(number: int, **rows: int) -> Transaction:
    """The transaction from `10 * number` on, with so many inserts into tables of `shop`."""
    counts = {f"shop.{table}": RowCounts(inserts=count) for table, count in rows.items()}
    return Transaction(at(10 * number), f"a:{number}", 7, at(10 * number + 10), MOMENT, [f"INSERT {number}"], 0, counts)


@dataclass
class Binlog:
    """These transactions, each with one image of every table; then an error, if there is one."""

    found: Sequence[Transaction]
    error: Exception | None = None
    columns: tuple[str, ...] = ("id",)

    def definitions(self, table: str) -> list[TableSchema]:
        return [TableSchema(*table.split("."), tuple(Column(name, 3, 0) for name in self.columns), ("id",))]

    def transactions(self, begin: EntryPosition, end: EntryPosition, after: EntryPosition) -> Iterator[Transaction]:
        assert begin <= after < end
        for each in self.found:
            yield each if each.start >= after else replace(each, start=after, gtid="")
        if self.error:
            raise self.error

    def images(self, transaction: Transaction, table: str) -> Iterator[pa.RecordBatch]:
        assert table in transaction.rows
        values = {name: [transaction.start.position] for name in self.columns}
        yield pa.RecordBatch.from_pydict(values | {OP: ["insert"]})


@pytest.fixture
def tables(tmp_path: Path) -> ClientTables:
    """Batch 1, of positions 0 to 100, is noted with tables t and u, which have no commit of it; rules make the rows of
    u."""
    lake = Lake(tmp_path)
    for table, more in (("t", {RULES: "{}"}), ("u", {RULES: '{"id": {}}'})):
        write_deltalake(lake.path("shop", table), pa.table({"id": [1]}))
        properties = {DESTINATION: "d", TABLE: f"shop.{table}", **more}
        DeltaTable(lake.path("shop", table)).alter.set_table_properties(properties, raise_if_not_exists=False)
    claim = Claim("d", 1, 1, at(4), at(100), (), 3, 3, 4, (), 0, "me", 0.0)
    notes = {"shop.t": TableNote(inserts=5, net_rows=4), "shop.u": TableNote(updates=2)}
    Ledger(lake, "d", 1).note(claim, notes, "run", 1.0)
    return ClientTables(lake, "d", 1)


def explainer(tables: ClientTables, *found: Transaction, error: Exception | None = None, limit: int = 20) -> Explainer:
    return Explainer(tables, cast(BinlogReader, Binlog(found, error)), "", limit)


def span(tables: ClientTables) -> Span:
    return PastBatches(tables.ledger).numbered(1, 1)


class TestExplainer:
    def test_rows_of_the_binlog(self, tables: ClientTables) -> None:
        """Where the lake cannot show rows, the binlog does, of tables that the lake shows as they are; statements on
        others are not shown."""
        found = explainer(tables, transaction(1, t=1), transaction(2, t=1, u=2)).explain(span(tables))
        t, u = found.tables
        assert (t.origin, [row.after for row in t.rows], t.more) == ("binlog", [{"id": 10}, {"id": 20}], True)
        assert t.counts == {"inserts": 5, "updates": 0, "deletes": 0, "net_rows": 4}
        assert (u.origin, u.rows) == ("none", ())
        assert "rules make its rows" in u.unknown
        assert [(one.statements, one.left_out) for one in found.transactions] == [(["INSERT 1"], 0), ([], 1)]

    def test_columns_that_the_lake_lacks(self, tables: ClientTables) -> None:
        """A rule may hide them, or the lake has not got them yet: neither their values nor statements are shown."""
        binlog = Binlog([transaction(1, t=1)], columns=("id", "ssn"))
        found = Explainer(tables, cast(BinlogReader, binlog)).explain(span(tables))
        t = found.tables[0]
        assert (t.origin, [row.after for row in t.rows]) == ("binlog", [{"id": 10}])
        assert "columns that the lake does not have" in t.unknown
        assert [(one.statements, one.left_out) for one in found.transactions] == [([], 1)]

    def test_rules_that_the_lake_has_not_followed_yet(self, tables: ClientTables) -> None:
        """What they hide of a table that the lake still shows whole is not shown."""
        for rule in (
            TableRule(exclude=("v",)),
            TableRule(masks=(("v", Mask(MaskKind.NULL)),)),
            TableRule(where="v = 1"),
        ):
            binlog = Binlog([transaction(1, t=1)], columns=("id", "v"))
            rules = Rules({"shop.t": rule})
            found = Explainer(tables, cast(BinlogReader, binlog), rules=rules).explain(span(tables))
            assert (found.tables[0].rows, found.transactions[0].statements) == ((), [])
            assert "rules make its rows" in found.tables[0].unknown

    @pytest.mark.parametrize("rules", [Rules({"shop.people": TableRule(exclude=("ssn",))}), None])
    def test_statements_that_may_ask_other_tables(self, tables: ClientTables, rules: Rules | None) -> None:
        """Where rules hide values of some table, or are not known, a statement has no literals."""
        asks = "INSERT INTO t SELECT 4711 FROM people WHERE n = 4711 AND ssn = 'geheim' AND x = 4711"
        one = replace(transaction(1, t=1), statements=[asks])
        found = Explainer(tables, cast(BinlogReader, Binlog([one])), rules=rules).explain(span(tables))
        (statement,) = found.transactions[0].statements
        assert statement == "INSERT INTO t SELECT 0 FROM people WHERE n = 0 AND ssn ="
        plain = Rules({"shop.people": TableRule(rename=(("a", "b"),))})
        found = Explainer(tables, cast(BinlogReader, Binlog([one])), rules=plain).explain(span(tables))
        assert found.transactions[0].statements == [asks]

    def test_all_rows_of_the_binlog(self, tables: ClientTables) -> None:
        """Where all rows are shown, no further ones are promised."""
        Ledger(tables.lake, "d", 1).note(
            Claim("d", 1, 2, at(100), at(200), (), 2, 2, 2, (), 0, "me", 0.0),
            {"shop.t": TableNote(inserts=2, net_rows=2)}, "run", 2.0,
        )  # fmt: skip
        batch = PastBatches(tables.ledger).numbered(2, 2)
        (t,) = explainer(tables, transaction(11, t=1), transaction(12, t=1)).explain(batch).tables
        assert (len(t.rows), t.more) == (2, False)

    def test_limit(self, tables: ClientTables) -> None:
        """At most so many transactions, tables and rows; that there are more is said."""
        many = [transaction(number, t=1, u=1) for number in range(1, 9)]
        found = explainer(tables, *many, limit=1).explain(span(tables))
        assert (len(found.transactions), found.more_transactions, len(found.tables), found.left_out) == (1, True, 1, 1)
        assert (len(found.tables[0].rows), found.tables[0].more) == (1, True)

    def test_named_tables(self, tables: ClientTables) -> None:
        """Transactions and rows of other tables are left out."""
        found = explainer(tables, transaction(1, t=1), transaction(2, u=1)).explain(span(tables), ["shop.u"])
        assert [one.gtid for one in found.transactions] == ["a:2"]
        assert [one.table for one in found.tables] == ["shop.u"]

    def test_one_transaction(self, tables: ClientTables) -> None:
        """The one that was asked for, with its own counts; the whole batch if the binlog does not have it."""
        both = (transaction(1, t=1), transaction(2, t=3))
        for asked in (with_gtid("A:2"), holding(at(30)), holding(at(25))):
            found = explainer(tables, *both).explain(span(tables), (), asked)
            assert (found.narrowed, found.span.start, found.span.end) == (True, at(20), at(30))
            assert found.tables[0].counts == {"inserts": 3, "updates": 0, "deletes": 0}
        found = explainer(tables, *both).explain(span(tables), (), with_gtid("a:3"))
        assert (found.narrowed, len(found.tables)) == (False, 2)
        assert "no such transaction" in found.transactions_unknown

    @pytest.mark.parametrize(
        ("asked", "there"),
        [
            (f" {SERVER.upper()}:23 ", f"{SERVER}:23"),
            (f"{SERVER}:23-23", f"{SERVER}:23"),
            (f"{SERVER}:1", f"{SERVER}:1"),
            (f"{SERVER}:Tag:5", f"{SERVER}:tag:5"),
            ("0-1-23", "0-1-23"),
        ],
    )
    def test_gtid_in_any_form(self, asked: str, there: str) -> None:
        """However a person writes it; no other one, and none without a GTID."""
        found = with_gtid(asked)
        given = [replace(transaction(1, t=1), gtid=gtid) for gtid in (there, f"{SERVER}:24", "0-1-24", "")]
        assert [found(one) for one in given] == [True, False, False, False]

    def test_transaction_that_began_in_a_batch_before(self, tables: ClientTables) -> None:
        """It is found by its GTID, which is at its beginning; of a batch only its own part is shown."""
        there, asked = transaction(0, t=1), replace(span(tables), begin=at(0), start=at(5))
        found = explainer(tables, there).explain(asked, (), with_gtid("a:0"))
        assert (found.narrowed, found.span.start) == (True, at(0))
        assert explainer(tables, there).explain(asked).transactions[0].gtid == ""

    def test_purged_binlog(self, tables: ClientTables) -> None:
        """A binlog that is gone is said, and the lake's answer stays."""
        error = PositionPurged("the journal was purged", place="bin.000001:4", hint="")
        found = explainer(tables, error=error).explain(span(tables))
        assert found.transactions_unknown == (
            "the source's binlog cannot show them: the journal was purged (bin.000001:4)"
        )
        assert [one.counts["inserts"] for one in found.tables] == [5, 0]

    def test_without_a_binlog(self, tables: ClientTables) -> None:
        """Why it was not read is said."""
        found = Explainer(tables, None, "it was not read").explain(span(tables))
        assert (found.transactions, found.transactions_unknown) == ((), "it was not read")
        assert "no commit" in found.tables[0].unknown

    def test_table_that_the_lake_lacks(self, tables: ClientTables) -> None:
        """A batch that is not in the lake shows the tables that the binlog has, without values."""
        found = explainer(tables, transaction(1, new=1)).explain(Span(0, at(4), at(100)))
        (new,) = found.tables
        assert (new.table, new.rows, new.counts["inserts"]) == ("shop.new", (), 1)
        assert "does not have the table" in new.unknown
