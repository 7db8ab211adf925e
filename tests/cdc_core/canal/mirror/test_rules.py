"""Mapping files: what they let through, and Canal's keys that have no effect."""

from __future__ import annotations

from pathlib import Path

from cdc_core.canal.mirror.rules import read_rules
from cdc_core.stream.filter import make_filter


def test_names_with_characters_of_expressions(tmp_path: Path) -> None:
    """A table's name is a name: the filter lets it through, and no other."""
    for number, (database, table) in enumerate([("a$b", "c+d"), ("shop", "x,y"), ("shop", "t.1"), ("my-db", "")]):
        kind = f"table: '{table}'\n  mapAll: true" if table else "mirrorDb: true"
        (tmp_path / f"{number}.yml").write_text(
            f"destination: shop\ndbMapping:\n  database: {database}\n  {kind}\n"
            "  readBatch: 5\n  caseInsensitive: true\n"
        )
    wanted = make_filter(read_rules(tmp_path, "shop").filter)
    assert wanted("a$b", "c+d")
    assert wanted("shop", "x,y")
    assert wanted("shop", "t.1")
    assert wanted("my-db", "any")
    assert not wanted("shop", "tx1")
    assert not wanted("a$b", "ccd")
