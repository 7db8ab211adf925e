"""The folder of a metastore before Spark opens it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestration.stack.metastore import ask_derby, clear_torn, make_ready, metastore_in


def test_a_database_whose_creation_was_killed_is_made_anew(tmp_path: Path) -> None:
    """Derby would refuse it for ever. A whole one stays, and so does the warehouse."""
    metastore = metastore_in(f"file://{tmp_path}/lake")
    clear_torn(metastore)
    (metastore / "derby" / "seg0").mkdir(parents=True)
    (metastore / "warehouse").mkdir()
    clear_torn(metastore)
    assert [one.name for one in metastore.iterdir()] == ["warehouse"]

    (metastore / "derby" / "seg0").mkdir(parents=True)
    (metastore / "derby" / "service.properties").touch()
    clear_torn(metastore)
    assert (metastore / "derby" / "seg0").is_dir()


@pytest.mark.in_turn
@pytest.mark.integration
@pytest.mark.parametrize("folder", ["lake", "the;lake 'of' $x_%"])
def test_databases_move_with_the_lake(folder: str, tmp_path: Path) -> None:
    """With what is in their warehouse, and nothing that is elsewhere; a copy is one as well. Without a metastore, or in
    the same place, nothing is asked."""
    metastore = metastore_in(str(tmp_path / folder))
    make_ready(metastore)
    there = f"file:{metastore}/warehouse/shop.db"
    other = f"file:{metastore}2/shop.db"
    values = ", ".join("('{}')".format(one.replace("'", "''")) for one in (there, other))
    for table, column in (("DBS", "DB_LOCATION_URI"), ("SDS", "LOCATION"), ("SERDE_PARAMS", "PARAM_VALUE")):
        made = f"CREATE TABLE {table} ({column} VARCHAR(4000)); INSERT INTO {table} VALUES {values};"
        assert "ERROR" not in ask_derby(metastore, made)

    moved = tmp_path / "moved"
    (tmp_path / folder).rename(moved)
    make_ready(metastore_in(str(moved)))

    whole = "MAXIMUMDISPLAYWIDTH 4000; SELECT * FROM DBS; SELECT * FROM SDS; SELECT * FROM SERDE_PARAMS;"
    found = ask_derby(metastore_in(str(moved)), whole)
    assert found.count(f"file:{moved}/_sluice/_sluice_metastore/warehouse/shop.db") == 3
    assert (found.count(other), found.count(there)) == (3, 0)
    assert (metastore_in(str(moved)) / "place").read_text() == str(metastore_in(str(moved)))
