"""Spark warmed by made-up changes, on a real Spark."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_core.errors import LakeError
from cdc_core.schema.names import split_name
from orchestration.stack.ports import free_port
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.warming import warm_up as module
from spark_jobs.warming.rows import DESTINATION, table_of
from spark_jobs.warming.warm_up import WarmUp


@pytest.mark.in_turn
@pytest.mark.integration
def test_its_tables_are_merged_and_gone(spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each table was made, filled, and merged with rows that changed and went, as the claims said. Then nothing is
    left of the folder, of one that was killed before neither. No other folder is touched, nor does Spark's catalog
    know them."""
    folder, seen = tmp_path / "warming", list[tuple[str, int, int]]()
    (folder / DESTINATION / "left").mkdir(parents=True)
    (tmp_path / "lake").mkdir()

    def looked(*arguments: Any, **options: Any) -> Any:
        batch = applied(*arguments, **options)
        (result,) = batch.applied
        table = DeltaTable(Lake(folder).path(*split_name(result.table)))
        seen.append(
            (table.history(1)[0]["operation"], result.commit.doubt.rows if result.commit else -1, table.count())
        )
        assert not (folder / DESTINATION / "left").exists()
        return batch

    applied = module.apply_batch
    monkeypatch.setattr(module, "apply_batch", looked)
    WarmUp(spark_remote, folder).run()

    assert seen == [("WRITE", 0, 200), ("MERGE", 0, 250)] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    assert list((tmp_path / "lake").iterdir()) == []
    with Sessions(spark_remote) as sessions, sessions.take() as spark:
        assert DESTINATION not in {one.name for one in spark.catalog.listDatabases()}
        assert {one.name for one in spark.catalog.listTables()}.isdisjoint(table_of(number).name for number in range(3))


@pytest.mark.in_turn
@pytest.mark.integration
def test_it_is_ended_in_the_middle(spark_remote: str, tmp_path: Path) -> None:
    """While it makes or fills its table. It leaves nothing that a later start does not remove, and Spark goes on."""
    folder, raised = tmp_path / "warming", list[BaseException]()
    warm_up = WarmUp(spark_remote, folder)

    def run() -> None:
        try:
            warm_up.run()
        except LakeError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not folder.exists():
        thread.join(0.01)
    while thread.is_alive():
        warm_up.end()
        thread.join(0.2)
    assert len(raised) == 1
    with Sessions(spark_remote) as sessions, sessions.take() as spark:
        assert spark.sql("SELECT 1").collect()[0][0] == 1
    WarmUp(spark_remote, folder).run()
    assert list(tmp_path.iterdir()) == []


def test_one_that_was_ended_before_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lends no session, not even one that was there before."""

    class Session:
        def stop(self) -> None: ...

    monkeypatch.setattr(Sessions, "_next", lambda _: Session())
    warm_up = WarmUp("sc://127.0.0.1:1", tmp_path / "warming")
    warm_up.end()
    with pytest.raises(LakeError, match="was ended"):
        warm_up.run()
    assert list(tmp_path.iterdir()) == []


def test_without_a_server_it_says_so(tmp_path: Path) -> None:
    """The error names what is away; the folder is gone all the same."""
    with pytest.raises(LakeError, match="does not answer"):
        WarmUp(f"sc://127.0.0.1:{free_port()}", tmp_path / "warming").run()
    assert list(tmp_path.iterdir()) == []
