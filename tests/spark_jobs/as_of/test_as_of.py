"""spark_jobs.as_of: what is said of places that not all tables have, and the SQL of the views."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import LakeError
from spark_jobs.as_of.as_of import NotAsOf, as_of
from spark_jobs.as_of.reading import read_batches
from spark_jobs.as_of.views import as_of_sql, as_of_view
from spark_jobs.lake.catalog_names import CatalogRules
from tests.support.lake_history import LakeHistory


@pytest.fixture
def lake(tmp_path: Path) -> LakeHistory:
    """Two tables, each with a row of each of three batches of two transactions."""
    history = LakeHistory(tmp_path, random.Random(1), ["shop.a", "shop.b"], ["shop.l"])
    for _ in range(3):
        history.commit("shop.a", "shop.b", "shop.l")
        history.commit("shop.a")
        history.batch_of(2)
    return history


def place(lake: LakeHistory, index: int) -> str:
    return str(lake.server.position(index))


def test_all_tables_are_of_the_same_transaction(lake: LakeHistory) -> None:
    """At the end of a batch, by the position or the batch; the answer is a plain value."""
    found = as_of(lake.follows, place(lake, 3))
    assert found == as_of(lake.follows, 2) == as_of(lake.follows, "2")
    assert {name: lake.rows_of(one) for name, one in found.tables.items()} == {
        name: lake.rows_at(name, 3) for name in lake.tables
    }
    version = lake.server.position(3).version()
    assert found.as_dict() == {
        "position": place(lake, 3),
        "place": f"0.{version}",
        "tables": {
            "shop.a": {"version": found.tables["shop.a"].version},
            "shop.b": {"version": found.tables["shop.b"].version},
            "shop.l": {"version": None, "log_version": found.tables["shop.l"].log_version},
        },
        "absent": {},
    }


def test_a_commit_that_spans_the_place_names_the_nearest_one(lake: LakeHistory) -> None:
    """The last earlier place that all tables have."""
    with pytest.raises(NotAsOf, match=r"shop\.a, and 1 more: version \d is of .*, and one commit brought") as error:
        as_of(lake.follows, place(lake, 2))
    assert error.value.place == place(lake, 2)
    assert place(lake, 1) in error.value.hint
    assert error.value.nearest == place(lake, 1)
    assert [one.table for one in error.value.refused] == ["shop.a", "shop.b"]
    assert as_of(lake.follows, place(lake, 2), nearest=True) == as_of(lake.follows, place(lake, 1))


def test_a_place_within_a_batch_may_be_within_a_transaction(lake: LakeHistory) -> None:
    """A log has rows up to any place; that a transaction ends there is known of the ends of batches alone. Where a
    table has no row around the place, it does not matter."""
    with pytest.raises(NotAsOf, match=r"shop\.l: it has changes in the batch around the place") as error:
        as_of(lake.follows, place(lake, 2), ["shop.l"])
    assert error.value.nearest == place(lake, 1)
    lake.commit("shop.a")
    lake.commit("shop.a")
    lake.batch_of(2)
    found = as_of(lake.follows, place(lake, 6), ["shop.b", "shop.l"])
    assert {one: lake.rows_of(chosen) for one, chosen in found.tables.items()} == {
        one: lake.rows_at(one, 5) for one in ("shop.b", "shop.l")
    }


def test_versions_that_are_gone_name_the_oldest_place_left(lake: LakeHistory) -> None:
    """Their files were deleted, which no commit says."""
    lake.vacuum("shop.b")
    with pytest.raises(NotAsOf, match=r"shop\.b: files of its version \d were deleted \(VACUUM\)") as error:
        as_of(lake.follows, place(lake, 1))
    assert f"first later place that all tables have is {place(lake, 5)}" in error.value.hint
    assert error.value.refused[0].gone
    assert error.value.nearest is None
    assert as_of(lake.follows, "latest").position == place(lake, 5)


def test_a_version_whose_deletion_vector_is_gone_cannot_be_read(lake: LakeHistory) -> None:
    """VACUUM leaves the data file: later versions read it with another vector."""
    version = as_of(lake.follows, place(lake, 1)).tables["shop.b"].version
    assert version is not None
    gone = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    file = Path(lake.path("shop.b"), "_delta_log", f"{version:020}.json")
    lines = [json.loads(one) for one in file.read_text().splitlines()]
    for one in lines:
        if "add" in one:
            one["add"]["deletionVector"] = gone | {"cardinality": 1}
    lines.append({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})
    file.write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(NotAsOf, match=rf"shop\.b: files of its version {version} were deleted \(VACUUM\)"):
        as_of(lake.follows, place(lake, 1))


def test_versions_before_a_checkpoint_are_gone_with_their_commits(lake: LakeHistory) -> None:
    """What is left begins where the checkpoint says."""
    table = DeltaTable(lake.path("shop.a"))
    table.create_checkpoint()
    for number in range(table.version()):
        Path(lake.path("shop.a"), "_delta_log", f"{number:020}.json").unlink()
    with pytest.raises(NotAsOf, match=rf"shop\.a: its versions before {table.version()} are gone") as error:
        as_of(lake.follows, place(lake, 3))
    assert error.value.refused[0].gone
    assert as_of(lake.follows, "latest").position == place(lake, 5)


def test_a_place_that_the_lake_has_not_reached_names_its_last_one(lake: LakeHistory) -> None:
    """So does one before its first batch."""
    lake.commit("shop.a")
    with pytest.raises(NotAsOf, match=f"no batches up to there: its last one ends at {place(lake, 5)}") as error:
        as_of(lake.follows, place(lake, 6))
    assert error.value.nearest == place(lake, 5)


def test_the_tables_of_a_killed_batch_are_of_a_later_place(lake: LakeHistory) -> None:
    """`latest` is the last place that all have."""
    lake.commit("shop.a", "shop.b")
    lake.batch_of(1, only=["shop.a"])
    assert as_of(lake.follows, "latest").position == place(lake, 5)
    lake.batch_of(1)
    assert as_of(lake.follows, "latest").position == place(lake, 6)


def test_a_stopped_table_has_no_version_until_it_is_copied(lake: LakeHistory) -> None:
    """The error says where it stopped. Places of before are still there."""
    lake.stopped.add("shop.b")
    lake.commit("shop.b")
    lake.commit("shop.a")
    lake.batch_of(2)
    with pytest.raises(NotAsOf, match=rf"shop\.b: .* it was stopped at {place(lake, 5)}"):
        as_of(lake.follows, place(lake, 7))
    lake.copy("shop.b", 7, 7)
    found = as_of(lake.follows, place(lake, 7))
    assert lake.rows_of(found.tables["shop.b"]) == lake.rows_at("shop.b", 7)
    assert as_of(lake.follows, place(lake, 3)).tables.keys() == {*lake.tables}


def test_a_table_that_leaves_the_filter_is_absent_from_the_batch_before_on(lake: LakeHistory) -> None:
    """Its rows stay as they are, which is of no later place. When it comes back, a copy brings it back."""
    lake.refilter("shop.b")
    lake.commit("shop.a", "shop.b")
    lake.commit("shop.a")
    lake.batch_of(2)
    assert as_of(lake.follows, "latest").absent == {"shop.b": "it was not captured then"}
    assert as_of(lake.follows, "latest").position == place(lake, 7)
    assert as_of(lake.follows, place(lake, 5)).tables.keys() == {*lake.tables}
    lake.refilter("")
    lake.commit("shop.b")
    lake.batch_of(1)
    with pytest.raises(NotAsOf, match=r"shop\.b: "):
        as_of(lake.follows, place(lake, 8))
    lake.copy("shop.b", 8, 8)
    assert as_of(lake.follows, place(lake, 8)).tables.keys() == {*lake.tables}
    assert as_of(lake.follows, place(lake, 7)).absent.keys() == {"shop.b"}


def test_rows_that_were_looked_up_are_of_no_place_until_the_source_was_there(lake: LakeHistory) -> None:
    """A foreign key may have changed them, or not: the source was ahead of the batch."""
    lake.commit("shop.a")
    lake.commit("shop.a", "shop.b")
    claim = lake.claim(6)
    lake.looked_up = {"shop.b": lake.server.position(7).version()}
    lake.batch_of(1)
    lake.looked_up = {}
    assert as_of(lake.follows, "latest").position == place(lake, 5)
    assert as_of(lake.follows, place(lake, 6), ["shop.a"]).tables["shop.a"].version is not None
    with pytest.raises(NotAsOf, match=r"shop\.b: "):
        as_of(lake.follows, str(claim.end), ["shop.b"])
    lake.batch_of(1)
    assert as_of(lake.follows, "latest").position == place(lake, 7)


def test_after_a_rewind_a_place_is_there_again_when_the_tables_have_caught_up(lake: LakeHistory) -> None:
    """Of the earlier epoch's versions it always is."""
    lake.rewind(3)
    lake.batch_of(2)
    found = as_of(lake.follows, place(lake, 3))
    assert {name: lake.rows_of(one) for name, one in found.tables.items()} == {
        name: lake.rows_at(name, 3) for name in lake.tables
    }
    lake.batch_of(1)
    assert as_of(lake.follows, "latest").position == place(lake, 5)


def test_a_restored_table_needs_a_copy(lake: LakeHistory) -> None:
    """Later batches are laid over rows that lack some."""
    table = DeltaTable(lake.path("shop.a"))
    table.restore(table.version() - 1)
    lake.commit("shop.a")
    lake.batch_of(1)
    with pytest.raises(NotAsOf, match="somebody restored it"):
        as_of(lake.follows, place(lake, 6))
    assert lake.rows_of(as_of(lake.follows, place(lake, 3)).tables["shop.a"]) == lake.rows_at("shop.a", 3)


def test_a_dropped_table_is_absent_and_no_obstacle(lake: LakeHistory) -> None:
    """And before its drop it is there."""
    lake.statement("drop", "shop.b")
    lake.batch_of(1)
    assert as_of(lake.follows, place(lake, 6)).absent == {"shop.b": "the source had no such table then"}
    assert "shop.b" in as_of(lake.follows, place(lake, 5)).tables


def test_a_table_that_the_lake_lacks_is_an_error(lake: LakeHistory) -> None:
    """If it is named."""
    with pytest.raises(LakeError, match="no such table"):
        as_of(lake.follows, "latest", ["shop.nothing"])


def test_a_lake_without_a_batch_has_no_place(tmp_path: Path) -> None:
    """Nor tables."""
    history = LakeHistory(tmp_path, random.Random(1), ["shop.a"])
    with pytest.raises(LakeError, match="no batch for latest"):
        as_of(history.follows, "latest")


def test_an_older_ledger_is_read(lake: LakeHistory) -> None:
    """It does not know servers and times: a batch's time is that of its note."""
    path, new = lake.ledger.path, ["executed_at", "partial", "moved", "seamless", "captured", "looked_up"]
    rows = pa.table(DeltaTable(path).to_pyarrow_table()).drop_columns(new)
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    noted = read_batches(lake.ledger).batches
    assert [one.executed and one.executed.timestamp() for one in noted] == [1.0, 3.0, 5.0]
    assert as_of(lake.follows, 2).tables.keys() == {*lake.tables}
    lake.commit(*lake.tables)
    lake.batch_of(1)
    assert (read_batches(lake.ledger).moved, as_of(lake.follows, "latest").position) == ({0: 0}, place(lake, 6))


def test_views_read_versions(lake: LakeHistory) -> None:
    """By the names of the catalog. A table that lands first reads its log too, at one version."""
    found, root = as_of(lake.follows, 2), lake.lake.root
    version = found.tables["shop.a"].version
    assert as_of_sql(lake.follows, found.tables["shop.a"]) == (
        f"SELECT `id`, `v` FROM delta.`{root}/shop/a` VERSION AS OF {version}"
    )
    landed = as_of_sql(lake.follows, found.tables["shop.l"])
    assert f"FROM delta.`{root}/shop/l__log` VERSION AS OF {found.tables['shop.l'].log_version}" in landed
    assert f"_sluice_version <= {found.place.version}" in landed
    assert as_of_view(lake.follows, "shop.a") == "`shop`.`a__as_of`"
    lake.lake.catalog = CatalogRules("unity", "{destination}_{database}", "{table}")
    assert as_of_view(lake.follows, "shop.a") == "`unity`.`d_shop`.`a__as_of`"
