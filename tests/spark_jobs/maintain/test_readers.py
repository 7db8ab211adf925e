"""spark_jobs.maintain.readers: what brings a table to its layout and its fewest features, and what cannot be had."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from pyspark.sql.connect.session import SparkSession

from spark_jobs.lake.features import CHANGE_FEED, ENABLE_VECTORS
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.layout import LAYOUT, Layout, Vectors
from spark_jobs.lake.state import FENCE, TableState
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.types import LakeColumn
from spark_jobs.maintain.readers import ReaderPlan, reader_plan
from spark_jobs.session import Sessions
from spark_jobs.write.vectors import give_vectors

PLAIN = (LakeColumn("id", "bigint"), LakeColumn("kind", "string"))
LARGE = 1 << 30


class Large(Lake):
    """Its tables are large."""

    def size(self, path: str) -> int:  # noqa: ARG002
        return LARGE


def planned(
    layout: Layout | None, *features: str, size: int = 0, partitions: tuple[str, ...] = (), **state: Any
) -> ReaderPlan:
    columns, properties = state.get("columns", PLAIN), state.get("properties", {})
    found = TableState(7, 7, columns, properties, features=frozenset(features))
    return reader_plan("/t", found, layout, size, partitions, local=state.get("local", True))


def note_of(plan: ReaderPlan) -> Layout | None:
    """The layout that the last step notes."""
    note = re.fullmatch(
        rf"ALTER TABLE delta.`/t` SET TBLPROPERTIES \('{LAYOUT}' = '(.+)'\)", plan.steps[-1].statements[-1]
    )
    assert note is not None
    return Layout.noted({LAYOUT: note[1]})


def texts(plan: ReaderPlan) -> list[str]:
    return [step.text for step in plan.steps]


def test_a_table_that_has_what_it_needs_is_left_alone() -> None:
    """No step is planned where nothing differs."""
    at = (*PLAIN, LakeColumn("at", "timestamp_ntz"))
    assert planned(None) == planned(Layout()) == ReaderPlan()
    assert planned(Layout(), "timestampNtz", "appendOnly", "invariants", columns=at) == ReaderPlan()
    feed = Layout(properties={CHANGE_FEED: "true"})
    assert planned(feed, "changeDataFeed", properties=feed.note) == ReaderPlan()


def test_features_that_no_column_needs_go() -> None:
    """Whether the layout is known or not."""
    for layout in (None, Layout()):
        assert texts(planned(layout, "variantType", "timestampNtz")) == ["without variantType", "without timestampNtz"]
    at = (*PLAIN, LakeColumn("at", "array<timestamp_ntz>"))
    assert texts(planned(None, "variantType", "timestampNtz", columns=at)) == ["without variantType"]


def test_vectors_go_where_a_table_gains_nothing_by_them() -> None:
    """A small table, or one that may have none. A large one keeps them, and the plan says so."""
    found = planned(Layout(), "deletionVectors")
    assert texts(found) == ["without deletionVectors"]
    off, purge = found.steps[0].statements
    assert "UNSET TBLPROPERTIES" in off
    assert "APPLY (PURGE)" in purge
    kept = planned(Layout(), "deletionVectors", size=LARGE)
    assert (kept.steps, len(kept.lasting)) == ((), 1)
    never = planned(Layout(Vectors.NEVER), "deletionVectors", size=LARGE, properties={ENABLE_VECTORS: "false"})
    assert texts(never) == ["without deletionVectors"]
    assert texts(planned(Layout(Vectors.NEVER))) == [f"set {ENABLE_VECTORS} = false"]
    always = Layout(Vectors.ALWAYS)
    assert planned(always, "deletionVectors", properties=always.note) == ReaderPlan()
    again = planned(Layout(), properties={ENABLE_VECTORS: "false"})
    assert texts(again) == ["deletionVectors again when it gains by them"]


def test_vectors_that_are_off_are_not_off_for_ever() -> None:
    """A table that was to have none, by a layout of before or in a step that was killed, gets them when it gains by
    them."""
    off, again = {ENABLE_VECTORS: "false"}, ["deletionVectors again when it gains by them"]
    for size in (0, LARGE):
        assert texts(planned(Layout(), properties=off, size=size)) == again
    assert texts(planned(Layout(), "deletionVectors", properties=off, size=LARGE)) == again
    assert texts(planned(Layout(), "deletionVectors", properties=off)) == ["without deletionVectors"]
    assert planned(None, properties=off) == planned(Layout(Vectors.NEVER), properties=off) == ReaderPlan()


@pytest.mark.parametrize(
    ("features", "properties", "given"),
    [
        ((), {}, True),
        (("deletionVectors",), {}, True),
        (("deletionVectors",), {ENABLE_VECTORS: "true"}, False),
        ((), {ENABLE_VECTORS: "false"}, False),
    ],
)
def test_a_large_table_gets_vectors_with_its_next_merge(
    features: tuple[str, ...], properties: dict[str, str], given: bool, tmp_path: Path
) -> None:
    """Unless it has them or may have none: the feature alone, of a table from which they went in part, is neither."""
    path, schema, said = str(tmp_path / "t"), Schema([Field("id", PrimitiveType("long"))]), list[str]()
    lake, fence = Large(tmp_path), Fence(Lake(tmp_path), cast(Sessions, None))
    DeltaTable.create(path, schema, configuration={FENCE: fence.token}, raise_if_key_not_exists=False)
    spark = cast(SparkSession, SimpleNamespace(sql=said.append))
    state = TableState(7, 7, PLAIN, properties, features=frozenset(features))
    give_vectors(spark, lake, fence, path, state)
    assert [f"'{ENABLE_VECTORS}' = 'true'" in text for text in said] == [True] * given


def test_without_a_layout_a_table_keeps_the_one_that_it_notes() -> None:
    """The command may know no defs.yaml: what the table was made with, or brought to, counts. Properties come back,
    and vectors go where it may have none. Clusters stay, whatever the source renamed."""
    made = Layout(Vectors.ALWAYS, {CHANGE_FEED: "true"}, ("kind",))
    assert planned(None, "deletionVectors", "clustering", properties=made.note) == ReaderPlan()
    renamed = (LakeColumn("id", "bigint"), LakeColumn("sort", "string"))
    assert planned(None, "deletionVectors", "clustering", properties=made.note, columns=renamed) == ReaderPlan()
    lost = {name: text for name, text in made.note.items() if name != CHANGE_FEED}
    assert texts(planned(None, "deletionVectors", properties=lost)) == [f"set {CHANGE_FEED} = true"]
    never = Layout(Vectors.NEVER).note
    assert texts(planned(None, "deletionVectors", properties=never, size=LARGE)) == ["without deletionVectors"]
    assert planned(None, properties=never) == ReaderPlan()


def test_what_an_earlier_version_noted_stays() -> None:
    """It named columns alone: vectors that the table was made with stay, and its clusters."""
    noted = {LAYOUT: '{"cluster_by": ["kind"], "partition_by": []}', ENABLE_VECTORS: "true"}
    assert planned(None, "deletionVectors", "clustering", properties=noted) == ReaderPlan()


def test_a_table_notes_the_layout_to_which_it_is_brought() -> None:
    """So that the command knows it later, in the last step. Partitions that only a reload changes are noted as they
    are."""
    wanted = Layout(Vectors.ALWAYS, {CHANGE_FEED: "true"}, ("kind", "gone"))
    found = planned(wanted)
    assert texts(found) == [f"set {CHANGE_FEED} = true, {ENABLE_VECTORS} = true", "clustered by kind"]
    assert note_of(found) == Layout(Vectors.ALWAYS, {CHANGE_FEED: "true"}, ("kind",))
    always = planned(Layout(Vectors.ALWAYS), properties={ENABLE_VECTORS: "true"})
    assert (texts(always), note_of(always)) == (["its layout is noted"], Layout(Vectors.ALWAYS))
    plain = planned(Layout(), properties=Layout(Vectors.ALWAYS).note)
    assert plain.steps[0].statements == (f"ALTER TABLE delta.`/t` UNSET TBLPROPERTIES IF EXISTS ('{LAYOUT}')",)
    days = Layout(partition_by=("kind",))
    kept = planned(Layout(Vectors.ALWAYS, cluster_by=("id",)), properties=days.note, partitions=("kind",))
    assert note_of(kept) == Layout(Vectors.ALWAYS, partition_by=("kind",))
    assert "partition_by nothing" in kept.lasting[0]


def test_clusters_and_properties_follow_the_layout() -> None:
    """Steps bring a table to the clusters and the properties of its layout."""
    clustered = planned(Layout(cluster_by=("kind",), properties={"delta.targetFileSize": "1mb"}))
    assert texts(clustered) == ["set delta.targetFileSize = 1mb", "clustered by kind"]
    noted = Layout(cluster_by=("kind",)).note
    assert planned(Layout(cluster_by=("kind",)), properties=noted) == ReaderPlan()
    assert planned(Layout(), properties=noted).steps[0].statements[0] == "ALTER TABLE delta.`/t` CLUSTER BY NONE"


def test_what_cannot_be_had_is_said() -> None:
    """What differs and no step can change is named."""
    stays = planned(Layout(), "variantType", "timestampNtz", local=False)
    assert (texts(stays), len(stays.lasting)) == (["without timestampNtz"], 1)
    assert "sluice copy" in planned(Layout(partition_by=("kind",))).lasting[0]
    days = Layout(partition_by=("kind",))
    assert planned(days, partitions=("kind",), properties=days.note) == ReaderPlan()
    assert "renamed or dropped" in planned(Layout(), "columnMapping").lasting[0]
