"""What each ALTER means for a table of the lake: in place, nothing, or a copy with the reason."""

from __future__ import annotations

import pytest

from spark_jobs.lake.alteration import Alteration, alteration
from spark_jobs.lake.by_name import needed_properties, statements
from spark_jobs.lake.copying import CopyNeeded
from tests.support.ddl_text import altered, created, lake_of

TABLE = created(
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(20) COMMENT 'a text', c CHAR(5), d DATETIME(3),"
    " n DECIMAL(8,2), e ENUM('a','b'), f FLOAT, b BINARY(2), x VARBINARY(9), t TEXT, dd DOUBLE,"
    " l VARCHAR(9) CHARACTER SET latin1)"
)
LAKE = lake_of(TABLE)


def decided(text: str) -> Alteration | None:
    (effect,) = altered(TABLE, f"ALTER TABLE t {text}")
    return alteration(effect, LAKE)


@pytest.mark.parametrize(
    "text",
    [
        "ADD a INT",
        "ADD a DATETIME FIRST",
        "ADD a INT AFTER id, ADD b2 VARCHAR(3)",
        "DROP COLUMN v",
        "RENAME COLUMN v TO w",
        "CHANGE v w INT",
        "MODIFY v INT FIRST",
        "MODIFY v INT COMMENT 'x' AFTER s",
        "MODIFY s VARCHAR(30)",
        "MODIFY s TEXT",
        "MODIFY c VARCHAR(5)",
        "MODIFY d DATETIME(6)",
        "MODIFY e ENUM('a','b','c')",
        "MODIFY x VARBINARY(20)",
        "MODIFY x BLOB",
        "MODIFY t LONGTEXT",
        "MODIFY s VARCHAR(20) COLLATE utf8mb4_bin",
        "MODIFY v INT DEFAULT 5",
        "MODIFY v INT DEFAULT 0x41, MODIFY s VARCHAR(30) DEFAULT _latin1 x'E4', MODIFY dd DOUBLE DEFAULT '-0'",
        "MODIFY v INT DEFAULT (1 + 1), ALTER x SET DEFAULT 'a', ADD a INT",
        "COMMENT 'of the table'",
        "DROP COLUMN IF EXISTS absent, ADD COLUMN IF NOT EXISTS v BIGINT",
        "ADD a INT COMMENT 'AS (DEFAULT (1)) AUTO_INCREMENT'",
    ],
)
def test_columns_change_by_name(text: str) -> None:
    """No row is touched."""
    plan = decided(text)
    assert plan is not None
    assert plan.by_name


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("ADD a INT DEFAULT 7", "a", "CAST('7' AS int)"),
        ("ADD a INT NOT NULL", "a", "CAST('0' AS int)"),
        ("ADD a DOUBLE DEFAULT -0.0", "a", "CAST('0' AS double)"),
        ("ADD a DECIMAL(40,2) DEFAULT -0.001", "a", "CAST('0.00' AS string)"),
        ("ADD a VARCHAR(9) NOT NULL DEFAULT 'it''s'", "a", "CAST('it\\'s' AS string)"),
        ("MODIFY v BIGINT", "v", "CAST(`v` AS bigint)"),
        ("MODIFY n DECIMAL(12,4)", "n", "CAST(`n` AS decimal(12,4))"),
        ("MODIFY f DOUBLE", "f", "CAST(`f` AS double)"),
        ("RENAME COLUMN v TO w, RENAME COLUMN s TO v", "v", "`s`"),
        ("RENAME COLUMN v TO s, RENAME COLUMN s TO v", "s", "`v`"),
        ("RENAME COLUMN v TO old_v, ADD v INT", "v", "CAST(NULL AS int)"),
        ("DROP COLUMN v, ADD v INT", "v", "CAST(NULL AS int)"),
        ("RENAME COLUMN v TO V", "V", "`v`"),
    ],
)
def test_rows_are_rewritten_where_values_are_known(text: str, column: str, value: str) -> None:
    """A constant, a wider type, or another column's values."""
    plan = decided(text)
    assert plan is not None
    assert not plan.by_name
    assert {one.column.name: one.value for one in plan.columns}[column] == value


def test_a_column_that_the_lake_has_already_is_rewritten() -> None:
    """It may have the values of a dropped column of that name, which a policy kept."""
    (effect,) = altered(TABLE, "ALTER TABLE t ADD kept INT")
    plan = alteration(effect, (*LAKE, type(LAKE[0])("kept", "string")))
    assert plan is not None
    assert not plan.by_name
    assert plan.columns[-1].value == "CAST(NULL AS int)"


@pytest.mark.parametrize(
    ("text", "unless"),
    [
        ("MODIFY v INT NOT NULL", ["`v` IS NULL"]),
        ("MODIFY v MEDIUMINT", ["`v` NOT BETWEEN -8388608 AND 8388607"]),
        ("MODIFY v INT UNSIGNED", ["`v` NOT BETWEEN 0 AND 4294967295"]),
        ("MODIFY id BIGINT AUTO_INCREMENT", ["`id` = 0"]),
        ("MODIFY s VARCHAR(3)", ["char_length(`s`) > 3"]),
        ("MODIFY s CHAR(20)", ["char_length(`s`) > 20", "`s` LIKE '% '"]),
        ("MODIFY x VARBINARY(4)", ["octet_length(`x`) > 4"]),
    ],
)
def test_some_rows_forbid_it(text: str, unless: list[str]) -> None:
    """A table with a row for which the condition holds must be copied."""
    plan = decided(text)
    assert plan is not None
    assert set(unless) <= set(plan.unless)


@pytest.mark.parametrize(
    ("text", "misfits"),
    [
        ("MODIFY v MEDIUMINT NOT NULL", {}),  # an INT in the lake as well
        ("MODIFY v SMALLINT", {"`v` IS NOT NULL AND try_CAST(`v` AS smallint) IS NULL": "v"}),
        ("MODIFY v INT NOT NULL, MODIFY s VARCHAR(3)", {}),
    ],
)
def test_some_values_have_no_place_in_the_new_type(text: str, misfits: dict[str, str]) -> None:
    """Of rows that were deleted too, where the lake's type changes."""
    plan = decided(text)
    assert plan is not None
    assert plan.misfits == misfits


@pytest.mark.parametrize("text", ["ALTER v SET DEFAULT 9", "ADD INDEX (v)", "ENGINE=InnoDB", "ALTER v DROP DEFAULT"])
def test_what_the_lake_does_not_show_is_nothing(text: str) -> None:
    """Indexes, engines and defaults of later rows."""
    assert decided(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ADD g INT AS (v * 2) STORED", "computed the values of the added column 'g'"),
        ("ADD g INT GENERATED ALWAYS AS (v * 2) VIRTUAL", "computed the values"),
        ("ADD i INT AUTO_INCREMENT UNIQUE", "computed the values"),
        ("ADD a INT DEFAULT (1 + 1)", "computed the values"),
        ("ADD a INT DEFAULT 0x41", "default 0x41.* values in old rows are unknown"),
        ("ADD a DOUBLE DEFAULT -0e0", "values in old rows are unknown"),
        ("ADD a TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "values in old rows are unknown"),
        ("MODIFY v INT AS (id * 2) STORED", "computes the values of column 'v'"),
        ("MODIFY d DATETIME", "it was datetime\\(3\\) and is datetime now"),
        ("MODIFY b BINARY(4)", "may have changed"),
        ("MODIFY e ENUM('b','a')", "may have changed"),
        ("MODIFY e ENUM('a')", "may have changed"),
        ("MODIFY n DECIMAL(8,1)", "may have changed"),
        ("MODIFY dd DOUBLE(9,2)", "may have changed"),
        ("MODIFY dd FLOAT", "may have changed"),
        ("MODIFY v VARCHAR(9)", "may have changed"),
        ("MODIFY s VARCHAR(20) CHARACTER SET latin1", "may have changed"),
        ("MODIFY d TIMESTAMP(3) NULL", "may have changed"),
        ("CONVERT TO CHARACTER SET latin1", "another character set"),
        ("DROP PRIMARY KEY", "its primary key is \\(none\\) now"),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (v)", "primary key is \\(v\\)"),
        ("DROP COLUMN id", "primary key is \\(none\\)"),
        ("DROP PARTITION p0", "does not say which"),
        ("FROBNICATE ALL", "not understood: FROBNICATE ALL"),
    ],
)
def test_what_is_not_known_must_be_copied(text: str, reason: str) -> None:
    """The reason names the column; the remedy is a copy."""
    with pytest.raises(CopyNeeded, match=reason) as caught:
        decided(text)
    assert "sluice copy" in caught.value.hint


def test_a_table_altered_in_part_needs_the_rest() -> None:
    """Each prefix of the statements leaves a table for which exactly the others are made."""
    text = "RENAME COLUMN v TO w, DROP COLUMN f, ADD a INT FIRST, MODIFY s VARCHAR(30) COMMENT 'another' AFTER id"
    (effect,) = altered(TABLE, f"ALTER TABLE t {text}")
    plan = alteration(effect, LAKE)
    assert plan is not None
    whole = statements(LAKE, plan)
    assert whole[:4] == [
        "RENAME COLUMN `v` TO `w`",
        "DROP COLUMNS (`f`)",
        "ADD COLUMNS (`a` int)",
        "ALTER COLUMN `a` FIRST",
    ]
    assert whole[4:] == ["ALTER COLUMN `s` AFTER `id`", "ALTER COLUMN `s` COMMENT 'another'"]
    assert needed_properties(LAKE, plan) == {"delta.columnMapping.mode": "name"}
    renamed = tuple(type(one)("w" if one.name == "v" else one.name, one.type, one.comment) for one in LAKE)
    again = alteration(effect, renamed)
    assert again is not None
    assert statements(renamed, again) == whole[1:]
    done = tuple(one.column for one in plan.columns)
    last = alteration(effect, done)
    assert last is not None
    assert statements(done, last) == []
