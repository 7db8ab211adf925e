"""What a soak samples: files, logs of Delta, SQLite's tables, pages of metrics; and the series that samples make."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support import probes
from tests.support.delta_logs import DeltaLog, LakeProbe
from tests.support.samples import Counted, Sample, Sampler, Seldom, all_series, away, read_samples

_SRVR = """Zookeeper version: 3.9.5-1
Latency min/avg/max: 0/0.9/37
Received: 260
Connections: 3
Zxid: 0x9b
Mode: standalone
Node count: 34
"""
_PAGE = """# TYPE sluice_acked_claims counter
sluice_acked_claims_total{destination="shop"} 41.0
sluice_acked_claims_total{destination="other"} 1.0
# TYPE sluice_store_bytes gauge
sluice_store_bytes{destination="shop"} 12.0
"""


def written(path: Path, rows: int, mode: str = "append") -> DeltaTable:
    write_deltalake(path, pa.table({"id": list(range(rows))}), mode=mode)  # type: ignore[call-overload]
    return DeltaTable(path)


def test_a_log_is_read_as_it_grows(tmp_path: Path) -> None:
    """Rows, bytes and files of the newest version, as delta-rs counts them, after each commit."""
    log = DeltaLog(tmp_path / "t")
    for _ in range(3):
        written(log.path, 10)
    log.read()
    assert (log.version, log.rows, len(log.live)) == (2, 30, 3)
    table = DeltaTable(log.path)
    table.delete("id > 7")
    table.optimize.compact()
    log.read()
    assert (log.version, log.rows, len(log.live)) == (table.version(), table.count(), len(table.file_uris()))
    assert log.bytes == sum(pa.table(table.get_add_actions(flatten=True))["size_bytes"].to_pylist())
    assert {file.name for file in log.path.glob("*.parquet")} == log.known


def test_a_table_in_the_place_of_another_is_read_anew(tmp_path: Path) -> None:
    """One that was moved away and made again has fewer commits."""
    log = DeltaLog(tmp_path / "t")
    for _ in range(3):
        written(log.path, 10)
    log.read()
    log.path.rename(tmp_path / "away")
    written(log.path, 4)
    log.read()
    assert (log.version, log.rows) == (0, 4)


def test_rows_under_a_deletion_vector_do_not_count(tmp_path: Path) -> None:
    """Spark adds the file again, with the vector. The vector's file is known: the name is the protocol's example."""
    folder = tmp_path / "t" / "_delta_log"
    folder.mkdir(parents=True)
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 6}
    add = {"path": "a%20file.parquet", "size": 100, "stats": json.dumps({"numRecords": 10})}
    (folder / f"{0:020d}.json").write_text(json.dumps({"add": add}))
    lines = [{"add": add | {"deletionVector": vector}}, {"remove": {"path": "a%20file.parquet"}}]
    (folder / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    log = DeltaLog(tmp_path / "t")
    log.read()
    assert (log.rows, log.bytes) == (4, 100)
    assert log.known == {"a file.parquet", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"}


def test_a_lake_is_counted_by_table(tmp_path: Path) -> None:
    """Tables of the source together, the ledger and each log by itself; files that no commit names are told."""
    ledger = tmp_path / "_sluice" / "shop" / "1001" / "batches"
    probe = LakeProbe(tmp_path, ledger)
    assert probe()["lake: tables"] == 0
    for _ in range(2):
        written(tmp_path / "shop" / "account", 10)
    written(tmp_path / "shop" / "entry", 5)
    written(ledger, 7)
    written(tmp_path / "_sluice" / "shop" / "staging" / "rows", 7)
    (tmp_path / "shop" / "entry" / "left.parquet").write_bytes(b"12345")
    found = probe()
    assert (found["lake: tables"], found["lake: commits"], found["lake: rows"]) == (2, 3, 25)
    assert (found["lake: files"], found["lake: live files"], found["lake: files of no commit"]) == (4, 3, 1)
    assert found["lake: bytes"] > found["lake: live bytes"] > 0
    assert (found["ledger: rows"], found["ledger: live files"]) == (7, 1)
    assert (found["log of shop/account: files"], found["log of shop/account: commits"]) == (2, 2)
    assert {name for name in found if name.startswith("log of") and name.endswith("files")} == {
        f"log of {name}: files" for name in ("shop/account", "shop/entry", "1001/batches")
    }


def test_files_are_counted_wherever_they_are(tmp_path: Path) -> None:
    """Below folders, and single ones; without those that are left out, and without what is not there."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("a/one", "a/b/two", "a/log", "three"):
        (tmp_path / name).write_bytes(bytes(1000))
    look = probes.folder("temp", tmp_path / "a", tmp_path / "three", tmp_path / "nothing", but={"log"})
    assert look() == {"temp: files": 3, "temp: bytes": pytest.approx(0.003)}
    assert probes.folder("temp", tmp_path, only="t*")()["temp: files"] == 2


def test_the_rows_of_each_table_of_sqlite_are_counted(tmp_path: Path) -> None:
    """Over all files, while another process writes; pages of deleted rows are free."""
    file = tmp_path / "records" / "runs.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE runs (body TEXT)")
        connection.executemany("INSERT INTO runs VALUES (?)", [("x" * 4000,)] * 100)
        connection.commit()
        full = probes.databases("dagster", tmp_path)()
        assert full["dagster: runs"] == 100
        connection.execute("DELETE FROM runs WHERE rowid > 3")
        connection.commit()
        rest = probes.databases("dagster", tmp_path)()
        asked = probes.query(file, {"kept": "SELECT count(*) FROM runs", "none": "SELECT max(0) FROM runs"})
        assert (rest["dagster: runs"], asked()) == (3, {"kept": 3, "none": 0})
    assert rest["dagster: bytes"] < full["dagster: bytes"] / 10
    assert probes.query(tmp_path / "nothing.db", {"kept": "SELECT 1"})() == {}
    left = {"left": "SELECT count(*) FROM lines WHERE run NOT IN (SELECT rowid FROM others.runs)"}
    lines = tmp_path / "lines.db"
    with closing(sqlite3.connect(lines)) as connection:
        connection.executescript("CREATE TABLE lines (run INT); INSERT INTO lines VALUES (1), (2), (77)")
    assert probes.query(lines, left, others=file)() == {"left": 1}
    (tmp_path / "broken.db").write_text("no database")
    assert probes.databases("dagster", tmp_path)() == {}


def test_a_process_and_its_children_are_measured() -> None:
    """Nothing of one that has ended."""
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        look = probes.process("service", started)
        found = look()
        assert found["service: memory"] > 1
        assert found["service: open files"] >= 3
        assert (found["service: threads"], found["service: children"]) == (1, 1)
        assert found["service: children's memory"] > 1
        started.communicate(b"\n")
    assert look() == {}


def test_pages_are_read() -> None:
    """ZooKeeper's, and that of metrics, whose labels are added up. A server that is away gives nothing."""
    assert probes.parsed_srvr(_SRVR) == {"zookeeper: nodes": 34, "zookeeper: connections": 3}
    names = {"sluice_acked_claims_total": "claims acked", "sluice_store_bytes": "bytes"}
    assert probes.parsed_metrics("service", _PAGE, names) == {"service: claims acked": 42, "service: bytes": 12}
    assert probes.zookeeper(1)() == {}
    assert probes.metrics("service", "http://127.0.0.1:1", names)() == {}


def test_a_counter_goes_on_over_a_restart() -> None:
    """What a new process counts comes on top."""
    said = iter([{"acked": 5.0}, {"acked": 9.0}, {"acked": 2.0}, {}, {"acked": 3.0}])
    counted = Counted(lambda: next(said))
    assert [dict(counted()) for _ in range(5)] == [{"acked": 5}, {"acked": 9}, {"acked": 11}, {}, {"acked": 12}]


def test_a_costly_probe_is_asked_seldom() -> None:
    """With the first sample, and then every third."""
    seldom = Seldom(lambda: {"rows": 1.0}, 3)
    assert [len(seldom()) for _ in range(7)] == [1, 0, 0, 1, 0, 0, 1]
    assert len(Seldom(lambda: {"rows": 1.0}, 1)()) == 1


def test_a_probe_whose_subject_is_away_says_nothing() -> None:
    """Any other error is a mistake of the probe's."""

    def fails() -> Mapping[str, float]:
        raise KeyError

    assert away(KeyError)(fails)() == {}
    with pytest.raises(KeyError):
        away(OSError)(fails)()


def test_samples_are_kept_and_read_again(tmp_path: Path) -> None:
    """At the pace that was asked for, however long a sample takes; a torn line is left out."""
    now, waited = [100.0], list[float]()

    def probe() -> Mapping[str, float]:
        now[0] += 2
        return {"service: memory": now[0]}

    def over(seconds: float) -> bool:
        waited.append(seconds)
        now[0] += seconds
        return len(waited) == 3

    sampler = Sampler([probe], lambda: {"service": 7}, tmp_path / "soak" / "samples", 5.0, clock=lambda: now[0])
    sampler.run(over)
    assert waited == [3, 3, 3]
    assert [one.at for one in sampler.samples] == [0, 5, 10]
    with sampler.file.open("a") as file:
        file.write('{"at": 15, "val')
    assert read_samples(sampler.file) == sampler.samples


def test_a_series_is_of_a_parts_last_life() -> None:
    """What others say goes on over it, and gaps stay gaps."""
    samples = [
        Sample(0, {"service: memory": 9, "lake: rows": 1}, {"service": 7}),
        Sample(1800, {"service: memory": 8, "lake: rows": 2}, {"service": 7}),
        Sample(3600, {"lake: rows": 3}, {}),
        Sample(5400, {"service: memory": 5}, {"service": 8}),
        Sample(7200, {"service: memory": 6, "lake: rows": 4}, {"service": 8}),
    ]
    found = all_series(samples)
    assert (found["service: memory"].hours, found["service: memory"].values) == ([1.5, 2], [5, 6])
    assert (found["lake: rows"].hours, found["lake: rows"].values) == ([0, 0.5, 1, 2], [1, 2, 3, 4])
