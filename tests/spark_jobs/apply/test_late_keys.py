"""spark_jobs.apply.late_keys: foreign keys that are gone when a run comes to the rows that they changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import Ddl
from cdc_core.schema.ddl_parser import effects
from cdc_core.stream.online_ddl import effects_seen
from spark_jobs.apply.late_keys import released, written_since
from spark_jobs.lake.state import DeltaCommit
from spark_jobs.lake.tables import Lake

RAN = 1_000_000  # when the statement ran, in milliseconds


@dataclass
class Claim:
    """A claim with statements alone."""

    ddl: tuple[Ddl, ...]


@dataclass
class Parents:
    """A lake of the table `s.c` and of another one, written at `at` by one commit."""

    commit: DeltaCommit
    at: int = RAN
    path: Any = field(default=lambda *name: ".".join(name))

    def live_tables(self, _: str) -> list[str]:
        return ["s.c", "s.p"]

    def written_at(self, path: str) -> int:
        assert path == "s.p"
        return self.at

    def commits_since(self, _: str, since: int) -> list[DeltaCommit]:
        return [self.commit] if self.at > since else []


def statement(text: str) -> Ddl:
    """A statement as a claim has it."""
    found, understood = effects(text, "s")
    seen = effects_seen(found, lambda *_: True, lambda *_: True)
    return Ddl(EntryPosition("mysql-bin.000001", 100, timestamp=RAN), "s", text, seen, understood)


def note(**counts: int) -> str:
    return json.dumps({"counts": {"inserts": 0, "updates": 0, "deletes": 0} | counts})


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("ALTER TABLE c DROP FOREIGN KEY k", ["s.c"]),
        ("ALTER TABLE c DROP CONSTRAINT k", ["s.c"]),
        ("ALTER TABLE c DROP FOREIGN KEY k, ADD COLUMN v INT", ["s.c"]),
        ("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE", []),
        ("ALTER TABLE c DROP KEY k, ADD COLUMN v INT", []),
    ],
)
def test_a_claim_shows_which_tables_lost_a_foreign_key(text: str, tables: list[str]) -> None:
    """Also by a statement that does nothing else; so does one that adds a foreign key, which is read again then."""
    ddl = statement(text)
    assert ddl.effects
    assert [name for name, _ in released(cast(Any, Claim((ddl,))))] == tables


@pytest.mark.parametrize(
    ("metadata", "operation", "at", "lost"),
    [
        (note(deletes=1), "MERGE", RAN, True),
        (note(updates=1), "WRITE", RAN, True),
        (note(inserts=5), "WRITE", RAN, False),
        (note(deletes=1), "MERGE", RAN - 20_000, False),
        ("", "SET TBLPROPERTIES", RAN, False),
        ("", "CREATE TABLE", RAN, False),
        (json.dumps({"ddl": "truncate"}), "CREATE OR REPLACE TABLE AS SELECT", RAN, False),
        (json.dumps({"copy": 1}), "CREATE OR REPLACE TABLE AS SELECT", RAN, True),
        ("", "MERGE", RAN, True),
    ],
)
def test_only_lost_keys_of_another_table_matter(metadata: str, operation: str, at: int, lost: bool) -> None:
    """Those that the lake lost since the statement ran. Inserts, statements and properties lose none."""
    lake = Parents(DeltaCommit(7, metadata, {}, operation), at)
    assert written_since(cast(Lake, lake), "shop", "s.c", statement("ALTER TABLE c DROP FOREIGN KEY k")) is lost
