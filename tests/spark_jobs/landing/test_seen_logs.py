"""Change logs of tables with rules, without Spark: what must not come into them although no table follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cdc_core.contract.claim import Claim
from cdc_core.rules.claims import HIDING, seen_claim
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.ddl import ChangeKind, ColumnChange, Effect, EffectKind
from spark_jobs.apply.result import BatchResult
from spark_jobs.lake.tables import Lake
from spark_jobs.landing.log import TableLog
from spark_jobs.landing.modes import Mode, Modes
from spark_jobs.session import Sessions
from tests.support.applying import apply_batch
from tests.support.ddl_claims import statement, with_ddl
from tests.support.spark_feed import Change, Feed, Table

RULES = Rules({"shop.p*": TableRule(exclude=("password",))})
PEOPLE = Table("people", pa.schema([("id", pa.int32()), ("v", pa.string())]), ("id",))
RENAMED = Table("people", pa.schema([*PEOPLE.fields, pa.field("secret", pa.string())]), ("id",))


def landed(service: Feed, lake: Lake, claim: Claim) -> BatchResult:
    """What a run makes of a claim of tables that have their logs alone."""
    sessions, modes = Sessions("sc://127.0.0.1:1"), Modes(Mode.APPEND)
    return apply_batch(seen_claim(claim, RULES), lake, sessions, service.url, modes=modes)


def columns(lake: Lake, table: str) -> list[str]:
    found = TableLog(lake, "d", 1, f"shop.{table}").open()
    return [one.name for one in found.columns if not one.name.startswith("_")] if found else []


def with_statement(service: Feed, start: int, end: int, effect: Effect) -> Claim:
    return with_ddl(service.claim(end, start, end), statement(start + 1, effect))


@pytest.mark.parametrize(
    "effect",
    [
        Effect(
            EffectKind.ALTER, "shop", "people", None,
            (ColumnChange(ChangeKind.RENAME_COLUMN, "password", "secret"),), None, RENAMED.schema,
        ),
        Effect(EffectKind.REWRITE, "shop", "people", None, (), None, RENAMED.schema),
    ],
)  # fmt: skip
def test_a_log_does_not_get_a_hidden_column_by_another_name(service: Feed, tmp_path: Path, effect: Effect) -> None:
    """Its table stops at the statement, and none of its rows are landed."""
    lake = Lake(tmp_path)
    service.put(PEOPLE, [Change(10, None, (1, "a"))])
    assert not landed(service, lake, service.claim(1, 5, 10)).refused
    service.put(RENAMED, [Change(30, None, (2, "b", "hunter2"))])

    batch = landed(service, lake, with_statement(service, 20, 30, effect))

    assert [one.table for one in batch.refused] == ["shop.people"]
    assert batch.refused[0].error.message.startswith(HIDING)
    assert not batch.landed
    assert columns(lake, "people") == ["id", "v"]


def test_a_table_that_is_renamed_away_from_its_rule_is_not_landed(service: Feed, tmp_path: Path) -> None:
    """Under a name that fits no pattern it would show all."""
    lake, people = Lake(tmp_path), Table("people", pa.schema([*PEOPLE.fields, ("password", pa.string())]), ("id",))
    folk = replace(people, name="folk")
    service.put(folk, [Change(30, None, (2, "b", "hunter2"))])
    renamed = Effect(EffectKind.RENAME, "shop", "people", ("shop", "folk"), (), people.schema, folk.schema)

    batch = landed(service, lake, with_statement(service, 20, 30, renamed))

    assert [one.table for one in batch.refused] == ["shop.folk"]
    assert columns(lake, "folk") == []
