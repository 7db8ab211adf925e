"""The rows in which two versions of a table differ, on real Delta tables of delta-rs and of Spark."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from cdc_core.errors import LakeError
from spark_jobs.lake.own_columns import DELETED, Own
from spark_jobs.lake.tables import Lake
from spark_jobs.past.changed import ChangedRow, changed_rows
from spark_jobs.past.files import DataFile, TwoVersions, net_files
from spark_jobs.past.vectors import _TO_Z85
from spark_jobs.session import Sessions
from tests.support.deletion_vectors import ARRAY, bitmap, vector

Rows = list[dict[str, Any]]


def rows_at(path: str, version: int) -> Rows:
    """All rows of a version."""
    table = DeltaTable(path, version)
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()).to_pylist()


def changes(path: str, before: int | None, after: int, key: tuple[str, ...] = ("id",)) -> list[ChangedRow]:
    return list(changed_rows(TwoVersions(Lake(Path(path).parent), path, before, after, key).images()))


def counted(rows: Rows) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows)


def check(path: str, before: int | None, after: int, key: tuple[str, ...]) -> None:
    """The changes lead from one version to the other, and none is without effect."""
    earlier = counted([] if before is None else rows_at(path, before))
    found = changes(path, before, after, key)
    for row in found:
        assert row.before != row.after
        if row.before is not None:
            earlier[tuple(row.before.values())] -= 1
        if row.after is not None:
            earlier[tuple(row.after.values())] += 1
    assert +earlier == counted(rows_at(path, after))
    assert not -earlier
    if key:
        keys = Counter(tuple((row.after or row.before or {})[name] for name in key) for row in found)
        assert not [one for one, count in keys.items() if count > 1]


def marked(path: Path, dead: dict[int, list[int]], rows: pa.Table) -> None:
    """A commit as Spark makes it: rows of the files, which are numbered by their age, are dead by vectors, and other
    rows come."""
    write_deltalake(path, rows, mode="append")
    last = DeltaTable(path).version()
    log = path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{last:020d}.json").read_text().splitlines()]
    lines, adds = [one for one in actions if "protocol" not in one], dict[str, Any]()
    for number in range(last):
        for one in map(json.loads, (log / f"{number:020d}.json").read_text().splitlines()):
            adds |= {one["add"]["path"]: one["add"]} if "add" in one else {}
    for at, places in dead.items():
        add = [*adds.values()][at]
        containers = {high: ([one & 0xFFFF for one in places if one >> 16 == high], ARRAY) for high in range(4)}
        data = vector({0: bitmap({high: one for high, one in containers.items() if one[0]})})
        text = base64.b85encode(data + bytes(-len(data) % 4)).translate(_TO_Z85).decode()
        noted = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(places)}
        kept = {name: add[name] for name in ("path", "partitionValues", "size", "deletionVector") if name in add}
        lines.append({"remove": kept | {"dataChange": True, "deletionTimestamp": 1, "extendedFileMetadata": True}})
        lines.append({"add": add | {"deletionVector": noted, "dataChange": True}})
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    lines.append({"protocol": protocol | {"readerFeatures": features, "writerFeatures": features}})
    (log / f"{last:020d}.json").write_text("\n".join(map(json.dumps, lines)))


class TestBetween:
    @pytest.mark.parametrize("seed", range(6))
    def test_random_history(self, tmp_path: Path, seed: int) -> None:
        """Between any two versions of a table, the changes lead from one to the other: over merges, deletes, appends
        and compaction, with a key and without one."""
        rng, path = random.Random(seed), str(tmp_path / "t")
        key = () if seed % 3 == 2 else ("id",)

        def some() -> pa.Table:
            ids = rng.sample(range(40), rng.randint(1, 10))
            texts = [rng.choice(("a", "b", None)) for _ in ids]
            return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array(texts, pa.string())})

        write_deltalake(path, some())
        for _ in range(6):
            table, step = DeltaTable(path), rng.choice(("merge", "merge", "delete", "compact", "append"))
            if step == "merge":
                merger = table.merge(some(), "s.id = t.id", source_alias="s", target_alias="t")
                merger.when_matched_update_all().when_not_matched_insert_all().execute()
            elif step == "delete":
                table.delete(f"id % 5 = {rng.randrange(5)}")
            elif step == "compact":
                table.optimize.compact()
            elif not key:
                write_deltalake(path, some(), mode="append")
        last = DeltaTable(path).version()
        for before in (None, *range(last)):
            for after in range((-1 if before is None else before) + 1, last + 1):
                check(path, before, after, key)

    def test_soft_delete(self, tmp_path: Path) -> None:
        """A row that is marked as deleted is a deleted row, and Sluice's own columns are not shown."""
        path, note = str(tmp_path / "t"), Own.made((), soft=True).note
        made = pa.table({"id": [1, 2], DELETED: [False, False]})
        write_deltalake(path, made)
        DeltaTable(path).alter.set_table_properties(note, raise_if_not_exists=False)
        DeltaTable(path).update(updates={DELETED: "true"}, predicate="id = 2")
        assert changes(path, 1, 2) == [ChangedRow("delete", {"id": 2}, None)]

    def test_added_column(self, tmp_path: Path) -> None:
        """Rows of files from before a column are compared with NULL in it."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": [1, 2]}))
        write_deltalake(path, pa.table({"id": [3], "v": ["x"]}), mode="append", schema_mode="merge")
        assert changes(path, 0, 1) == [ChangedRow("insert", None, {"id": 3, "v": "x"})]

    def test_files_added_once_more(self, tmp_path: Path) -> None:
        """A commit that gives files statistics adds them again, and removes none: no row has changed."""
        path, log = str(tmp_path / "t"), tmp_path / "t" / "_delta_log"
        write_deltalake(path, pa.table({"id": [1, 2]}))
        actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
        (added,) = [one["add"] for one in actions if "add" in one]
        info = {"commitInfo": {"operation": "COMPUTE STATS", "timestamp": 1}}
        again = [info, {"add": {**added, "dataChange": False}}]
        (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, again)))
        write_deltalake(path, pa.table({"id": [3]}), mode="append")
        assert changes(path, 0, 2) == [ChangedRow("insert", None, {"id": 3})]
        assert [row.after for row in changes(path, None, 2)] == [{"id": 1}, {"id": 2}, {"id": 3}]
        DeltaTable(path).delete("id = 2")
        check(path, 0, 3, ("id",))

    def test_key_that_the_version_lacks(self, tmp_path: Path) -> None:
        """Rows are not paired by a key whose columns have other names there."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": [1], "v": ["a"]}))
        DeltaTable(path).update(new_values={"v": "b"}, predicate="id = 1")
        assert [row.kind for row in changes(path, 0, 1)] == ["update"]
        assert sorted(row.kind for row in changes(path, 0, 1, ("renamed",))) == ["delete", "insert"]

    def test_partitioned_table(self, tmp_path: Path) -> None:
        """The columns by which files are parted have their values and types."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": [1, 2], "p": pa.array([7, None], pa.int32())}), partition_by=["p"])
        DeltaTable(path).delete("id = 1")
        assert changes(path, 0, 1) == [ChangedRow("delete", {"id": 1, "p": 7}, None)]
        assert [row.after for row in changes(path, None, 0)] == [{"id": 1, "p": 7}, {"id": 2, "p": None}]

    def test_commit_is_gone(self, tmp_path: Path) -> None:
        """A commit that was cleaned up is an error that names another way."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": [1]}))
        write_deltalake(path, pa.table({"id": [2]}), mode="append")
        table = DeltaTable(path)
        table.create_checkpoint()
        (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
        with pytest.raises(LakeError, match="cannot be compared") as caught:
            changes(path, 0, 1)
        assert "binlog" in caught.value.hint

    def test_bounded(self, tmp_path: Path) -> None:
        """Rows beyond the limit are not held: that many is an error."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": list(range(10_000))}))
        with pytest.raises(LakeError, match="moved more than 20,000 bytes"):
            list(TwoVersions(Lake(tmp_path), path, None, 0, ("id",), 20_000).images())

    def test_bounded_reading(self, tmp_path: Path) -> None:
        """Files that are larger than what may be read are not, whatever remains of their rows."""
        path = str(tmp_path / "t")
        write_deltalake(path, pa.table({"id": list(range(10_000))}))
        (file,) = (tmp_path / "t").glob("*.parquet")
        size = file.stat().st_size
        assert len(list(TwoVersions(Lake(tmp_path), path, None, 0, ("id",), most_read=size).images())) == 1
        with pytest.raises(LakeError, match="have more than"):
            list(TwoVersions(Lake(tmp_path), path, None, 0, ("id",), most_read=size - 1).images())

    def test_rows_that_vectors_name(self, tmp_path: Path) -> None:
        """Rows of several batches of a file are found by their places, those of rewritten files too."""
        path, count = str(tmp_path), 200_000
        rows = pa.table({"id": np.arange(count), "v": ["a"] * count})
        write_deltalake(path, rows)
        marked(tmp_path, {0: [5, 6, 65_535, 65_536, 199_999]}, pa.table({"id": [5, 65_536], "v": ["b", "b"]}))
        marked(tmp_path, {0: [5, 6, 7, 65_535, 65_536, 131_072, 199_999]}, pa.table({"id": [7], "v": ["c"]}))
        found = {between: changes(path, *between) for between in ((0, 1), (0, 2), (1, 2), (None, 1))}
        kinds = {between: Counter(row.kind for row in rows) for between, rows in found.items()}
        assert kinds == {
            (0, 1): {"update": 2, "delete": 3},
            (0, 2): {"update": 3, "delete": 4},
            (1, 2): {"update": 1, "delete": 1},
            (None, 1): {"insert": count - 3},
        }
        assert [row.before for row in found[1, 2]] == [{"id": 7, "v": "a"}, {"id": 131_072, "v": "a"}]

    @pytest.mark.integration
    def test_spark_with_deletion_vectors(self, spark_remote: str, tmp_path: Path) -> None:
        """Rows that Spark marked in deletion vectors, more with each commit, and in a renamed column, are found."""
        path = tmp_path / "t"
        made = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
        with Sessions(spark_remote) as sessions, sessions.take() as spark:
            for statement in (
                f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING, at TIMESTAMP_NTZ) USING delta {made}",
                f"INSERT INTO delta.`{path}` SELECT id, 'a', TIMESTAMP_NTZ '2026-01-01' FROM range(0, 5000, 1, 1)",
                f"ALTER TABLE delta.`{path}` RENAME COLUMN v TO w",
                f"DELETE FROM delta.`{path}` WHERE id IN (5, 4000)",
                f"UPDATE delta.`{path}` SET w = 'b' WHERE id BETWEEN 6 AND 8",
            ):
                spark.sql(statement).collect()
        assert "deletion_vector" in " ".join(str(one) for one in path.rglob("*"))
        assert [(row.kind, row.before and row.before["id"]) for row in changes(str(path), 2, 3)] == [
            ("delete", 5), ("delete", 4000),
        ]  # fmt: skip
        assert [(row.kind, row.before and row.before["w"], row.after and row.after["w"]) for row in
                changes(str(path), 3, 4)] == [("update", "a", "b")] * 3  # fmt: skip
        check(str(path), 2, 4, ("id",))


class TestNetFiles:
    def test_file_that_came_and_went(self) -> None:
        """A file of neither end, and one that came back, are no difference; another vector makes another file."""
        a, b, c = ({"path": name} for name in "abc")
        vector = {"storageType": "i", "pathOrInlineDv": "x"}
        commits = [
            [{"remove": a}, {"add": b}, {"commitInfo": {}}],
            [{"remove": b}, {"add": a}, {"add": c}],
            [{"remove": c}, {"add": c | {"deletionVector": vector}}],
        ]
        gone, come = net_files(commits)
        assert (gone, come) == ([], [DataFile("c", which="ix@None")])
