"""Tables whose DATETIMEs a rule made instants or texts: when they go on with other rules, and what ALTER means."""

from __future__ import annotations

import pytest

from cdc_core.errors import TableStopped
from cdc_core.position import EntryPosition
from cdc_core.rules.claims import seen_ddl
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Cast
from cdc_core.schema.ddl import Ddl
from spark_jobs.lake.alteration import Alteration, alteration
from spark_jobs.lake.copying import CopyNeeded
from spark_jobs.lake.defaults import old_row_values
from spark_jobs.lake.seen_columns import check_rules, definition_properties
from spark_jobs.lake.state import TableState
from spark_jobs.lake.types import LakeColumn
from tests.support.ddl_text import altered, created, lake_of

TABLE = created("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(3), seen TIMESTAMP(3) NULL)")
INSTANT, TEXT = TableRule(casts=(Cast.DATETIME_TIMESTAMP,)), TableRule(casts=(Cast.DATETIME_STRING,))
ZONED = TableRule(casts=(Cast.DATETIME_TIMESTAMP,), zone="Europe/Berlin")
NONE = TableRule()


def changed(text: str, rule: TableRule) -> Alteration | None:
    """What an ALTER means for the table that the rule made."""
    (effect,) = altered(TABLE, f"ALTER TABLE t {text}")
    ddl = Ddl(EntryPosition("mysql-bin.000001", 4), "shop", text, (effect,))
    (effect,) = seen_ddl(ddl, Rules({"*": rule})).effects
    return alteration(effect, lake_of(rule.view(TABLE)))


def test_the_lake_has_the_types_of_the_rule() -> None:
    """TIMESTAMP is an instant by any."""
    for rule, kind in ((NONE, "timestamp_ntz"), (INSTANT, "timestamp"), (ZONED, "timestamp"), (TEXT, "string")):
        assert [column.type for column in lake_of(rule.view(TABLE))] == ["int", kind, "timestamp"]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (NONE, INSTANT, "'at' was shown as it is and is shown as 'at', of another type .datetime_timestamp. now"),
        (INSTANT, ZONED, r"\(datetime_timestamp\) and is .* \(datetime_timestamp in Europe/Berlin\) now"),
        (ZONED, TEXT, r"\(datetime_timestamp in Europe/Berlin\) and is .* \(datetime_string\) now"),
        (TEXT, NONE, "'at' was .* and is shown as it is now"),
    ],
)
def test_other_rules_need_a_copy(before: TableRule, after: TableRule, reason: str) -> None:
    """Another zone as well."""
    was = before.view(TABLE)
    state = TableState(1, None, lake_of(was), definition_properties(was))
    check_rules(was, state)
    with pytest.raises(CopyNeeded, match=reason):
        check_rules(after.view(TABLE), state)


def test_a_datetime_of_more_digits_is_the_same_instant() -> None:
    """In each zone. A TIMESTAMP that becomes a DATETIME is another value; a text of more digits is another text."""
    for rule in (INSTANT, ZONED):
        longer = changed("MODIFY at DATETIME(6)", rule)
        assert longer is not None
        assert (longer.by_name, longer.unless, longer.misfits) == (True, (), {})
        with pytest.raises(CopyNeeded):
            changed("MODIFY seen DATETIME(3)", rule)
    with pytest.raises(CopyNeeded):
        changed("MODIFY at DATETIME(6)", TEXT)


def test_a_default_of_an_instant_is_not_known() -> None:
    """A text's is."""
    added = created("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(3) NOT NULL DEFAULT '2024-07-01 08:30:00.000')")
    for rule in (INSTANT, ZONED):
        with pytest.raises(TableStopped, match="its values in old rows are unknown"):
            old_row_values(rule.view(added), (LakeColumn("at", "timestamp"),))
    found = old_row_values(TEXT.view(added), (LakeColumn("at", "string"),))
    assert found == {"at": "CAST('2024-07-01 08:30:00.000' AS string)"}
