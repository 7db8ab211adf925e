"""What the statements say of tables that have columns of ours. They need no Spark."""

from __future__ import annotations

from spark_jobs.apply.cascade_sql import merge
from spark_jobs.changes.net import CLAIMED, ImageQuery
from spark_jobs.lake.own_columns import DELETED, LAST_OP, POSITION, Own
from spark_jobs.lake.row_rules import LastChange, RowRules
from spark_jobs.lake.types import LakeColumn
from spark_jobs.write.statements import merge_last

_SOFT = Own.made((POSITION,), soft=True)
_HARD = Own.made((LAST_OP,), soft=False)


def test_soft_deletes_take_every_key() -> None:
    """No row goes, and one that came and went within the batch is there as a deleted one."""
    statement = merge_last("/l/s/t", "v", ["id", "x"], ["id"], _SOFT, (5, 9))
    assert "THEN DELETE" not in statement
    assert "WHEN NOT MATCHED THEN INSERT (`id`, `x`, `_sluice_deleted`, `_sluice_position`)" in statement
    assert "t.`id` BETWEEN 5 AND 9" in statement


def test_hard_deletes_take_the_row() -> None:
    """And a key that has no row adds none."""
    statement = merge_last("/l/s/t", "v", ["id"], ["id"], _HARD)
    assert "WHEN MATCHED AND s._sluice_gone THEN DELETE WHEN MATCHED THEN UPDATE SET" in statement
    assert "WHEN NOT MATCHED AND NOT s._sluice_gone THEN INSERT (`id`, `_sluice_op`)" in statement


def test_the_last_image_counts() -> None:
    """By the place of its event, and within one event the row after the change; of a log by its own order."""
    columns = (LakeColumn("id", "int"),)
    from_claim = ImageQuery("v", columns, ("id",), form=CLAIMED).last(_SOFT)
    assert "ORDER BY _sluice_journal DESC, _sluice_position DESC, _sluice_row DESC" in from_claim
    from_log = ImageQuery("l", columns, ("id",), "_sluice_epoch = 0").last(_SOFT)
    assert "ORDER BY _sluice_epoch DESC, _sluice_version DESC, _sluice_nth DESC" in from_log
    assert "FROM l WHERE _sluice_epoch = 0" in from_log


def test_what_a_foreign_key_deletes_has_no_place() -> None:
    """It is in no binlog. Where deletes are hard its row goes."""
    soft = merge("/l/s/t", ["id"], ["up"], 1, Own.made((POSITION, LAST_OP), soft=True))
    told = f"t.{POSITION} = CAST(NULL AS STRING), t.{LAST_OP} = 'delete'"
    assert f"THEN UPDATE SET t.{DELETED} = true, {told}" in soft
    plain = merge("/l/s/t", ["id"], ["up"], 1, RowRules().of("s.t"))
    assert "THEN DELETE WHEN MATCHED THEN UPDATE SET t.`up` = s._sluice_new_0" in plain
    assert RowRules(columns=(LastChange.OP,)).of("s.t") == _HARD
