"""A source to which things happen at random: restarts, purges, binlogs that begin again, older copies of its disk.

One destination reads it meanwhile. What was acked is applied to a mirror of the source's table, which must be equal to
it whenever all is drained: no row is lost, none comes twice. A source that was set back must be refused until the right
copy is back or the cursor is reset; any other must be read.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from cdc_core.destination.events import Configuration
from cdc_core.destination.rewind import RewindTarget, plan
from cdc_core.destination.runner import Destination
from cdc_core.errors import SluiceError
from cdc_core.meta.nodes import MemoryNodes
from cdc_core.rows.net import plan_changes, read
from orchestration.stack.mysql.server import MySqlServer
from tests.support.captures import CLIENT, config, on_disk
from tests.support.pair import capture_of, reads
from tests.support.reading import until_read
from tests.support.servers import executed_gtids, kill_dumps, purge

_PATIENCE = 60.0  # seconds
_REFUSED = {"SourceSetBack", "PositionError", "PositionPurged"}


class Fault(Exception):
    """The destination did what it must not."""


@dataclass
class Outcome:
    """`fault`: what went wrong; empty when nothing did."""

    seed: int
    rows: int = 0
    events: dict[str, int] = field(default_factory=dict)
    fault: str = ""


class SourceSoak:
    """One script on a server of its own. `stored`: with a store on disk."""

    def __init__(self, mysql: MySqlServer, directory: Path, seed: int, *, gtid: bool, stored: bool) -> None:
        self.mysql, self.directory, self.gtid = mysql, directory, gtid
        self.random, self.outcome = Random(seed), Outcome(seed)
        mysql.execute("DROP DATABASE IF EXISTS soak", "CREATE DATABASE soak")
        mysql.execute("CREATE TABLE soak.t (id INT PRIMARY KEY, v INT)")
        changes = {"gtid_mode": gtid}
        made = on_disk(mysql, "soak", directory / "store", **changes) if stored else config(mysql, "soak", **changes)
        self._config, self._nodes = made, MemoryNodes()
        self._mirror: dict[int, int] = {}
        self._next = 0
        self._saved: Path | None = None

    def run(self, steps: int) -> Outcome:
        """Takes so many steps, and compares after each few."""
        self._serve()
        try:
            self._until_reading()
            for _ in range(steps):
                self._step()
            self._compare()
        except (Fault, AssertionError) as fault:
            self.outcome.fault = f"{type(fault).__name__}: {fault}"[:2000]
        finally:
            self.one.end("the soak is over")
        return self.outcome

    def _step(self) -> None:
        healthy: list[Callable[[], None]] = [self._restart, self._crash, self._lose_connection, self._flush]
        healthy += [self._checksum, self._purge, self._serve_anew]
        unhealthy = [self._save, self._set_back, self._renumber]
        self._write()
        if self.random.random() < 0.5:
            self._drain(self.random.random() < 0.5)
        step = self.random.choice(healthy if self.random.random() < 0.6 else unhealthy)
        self._count(step.__name__.strip("_"))
        step()
        if self.random.random() < 0.3:
            self._compare()

    # -- what happens to a healthy source

    def _restart(self) -> None:
        self.mysql.stop()
        self.mysql.start()

    def _crash(self) -> None:
        self.mysql.kill()
        self.mysql.start()

    def _lose_connection(self) -> None:
        kill_dumps(self.mysql)

    def _flush(self) -> None:
        self.mysql.execute("FLUSH BINARY LOGS")

    def _checksum(self) -> None:
        self.mysql.execute(f"SET GLOBAL binlog_checksum = '{self.random.choice(('NONE', 'CRC32'))}'")

    def _purge(self) -> None:
        """Of what was acked."""
        self._flush()
        self._write()
        self._compare()
        purge(self.mysql, self.mysql.position()[0])

    def _serve_anew(self) -> None:
        """The service restarts, perhaps with a claim outstanding; the source may write, or crash, meanwhile."""
        with self._without_service():
            self._write()
            if self.random.random() < 0.3:
                self._crash()

    # -- what happens to other ones

    def _save(self) -> None:
        self._saved = self.directory / "saved"
        self._copy(self.mysql._directory / "data", self._saved)

    def _set_back(self) -> None:
        """To the saved copy, after something that was read since; seen or not seen by the service."""
        if self._saved is None:
            self._save()
        self._write()
        self._until_reading()
        until_read(self.one.status, self.mysql)
        data, last, saved = self.mysql._directory / "data", self.directory / "last", self._saved
        assert saved is not None
        truth = self._table()
        if self.random.random() < 0.5:
            self._drain(True)
            with self._without_service():
                self._copy(data, last)
                self._copy(saved, data)
                self._write()
        else:
            self._copy(data, last)
            self._copy(saved, data)
            self._write()
        for _ in range(self.random.randrange(3)):
            self._refused()
            self._write()
            if self.random.random() < 0.5:
                with self._without_service():
                    self._write()
        self._refused()
        if self.random.random() < 0.5:
            self._copy(last, data)
            self._count("restored")
            assert self._table() == truth
            self._until_reading(refused=True)
        else:
            self._reset()
        self._compare()

    def _renumber(self) -> None:
        """Its binlogs begin again. By GTID on MySQL that loses nothing."""
        self._until_reading()
        until_read(self.one.status, self.mysql)
        self._saved = None
        mariadb, gtids = self.mysql.version == "mariadb", executed_gtids(self.mysql)
        self.mysql.execute("RESET BINARY LOGS AND GTIDS" if self.mysql.version == "9" else "RESET MASTER")
        if not mariadb:
            self.mysql.execute(f"SET GLOBAL gtid_purged = '{gtids}'")
        kill_dumps(self.mysql)
        self._write()
        if mariadb or not self.gtid:
            self._refused()
            self._reset()
        else:
            self._until_reading(refused=True)
        self._compare(refused=True)  # the connection that was open ends with an error, perhaps not yet

    def _reset(self) -> None:
        """To the end, and reloads the table."""
        settings, cursors = self.one.source_settings(), self.one.cursors
        self.one.rewind(plan(settings, cursors, RewindTarget("latest")))
        self._mirror = self._table()
        self._until_reading(refused=True)
        self._count("reset")

    # -- the parts

    def _count(self, event: str) -> None:
        self.outcome.events[event] = self.outcome.events.get(event, 0) + 1

    def _serve(self) -> None:
        found = Configuration(self._config)
        self.one = Destination(self._config.destination, found, self._nodes, pauses=(0.2, 1.0))
        self.one.start()

    @contextmanager
    def _without_service(self) -> Iterator[None]:
        self.one.end("the soak restarts it")
        yield
        self._serve()

    def _copy(self, source: Path, target: Path) -> None:
        """A copy of the server's disk, the server being down meanwhile."""
        self.mysql.kill()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self.mysql.start()

    def _write(self) -> None:
        """Some transactions."""
        with self.mysql.root("soak") as connection, connection.cursor() as cursor:
            for _ in range(self.random.randint(1, 12)):
                self._next += 1
                cursor.execute(f"INSERT INTO t VALUES ({self._next}, {self.random.randrange(10**6)})")
                if self.random.random() < 0.3:
                    cursor.execute(f"UPDATE t SET v = v + 1 WHERE id <= {self._next} ORDER BY id DESC LIMIT 3")
                if self.random.random() < 0.2:
                    cursor.execute(f"DELETE FROM t WHERE id < {self._next} ORDER BY RAND() LIMIT 2")

    def _table(self) -> dict[int, int]:
        with self.mysql.root("soak") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, v FROM t")
            return dict(cursor.fetchall())

    def _drain(self, all_of_it: bool) -> None:
        """Claims what is there and acks it; or leaves a claim outstanding. A source that is away is no fault."""
        with suppress(SluiceError):
            self.one.service().rollback(CLIENT, None, None, "the soak claims again")
            while self._drained_one(ack=all_of_it or self.random.random() < 0.7):
                pass

    def _drained_one(self, *, ack: bool) -> bool:
        service = self.one.service()
        found = service.claim(CLIENT, self.random.choice((3, 20, 1000)), 0.2, "soak", 60)
        if found is None:
            return False
        changes = self._changes(found.batch_id) if found.tables else []
        if not ack:
            return False
        service.ack(CLIENT, found.batch_id, "soak")
        for op, number, v in changes:
            self._apply(op, number, v)
        self.outcome.rows += len(changes)
        return True

    def _changes(self, batch_id: int) -> list[tuple[str, int, int]]:
        capture = capture_of(self.one)
        planned = plan_changes(capture.service.slices(CLIENT, batch_id), capture.registry, "soak.t")
        batches: list[Any] = [batch for split in range(len(planned.splits)) for batch in read(planned, split)]
        return [(row["_sluice_op"], row["id"], row["v"]) for batch in batches for row in batch.to_pylist()]

    def _apply(self, op: str, number: int, v: int) -> None:
        if op in ("delete", "update_before"):
            if self._mirror.pop(number, None) != v:
                raise Fault(f"{op} of {number}, {v}, which the mirror does not have")
        elif number in self._mirror:
            raise Fault(f"{op} of {number}, which the mirror has")
        else:
            self._mirror[number] = v

    def _compare(self, *, refused: bool = False) -> None:
        """`refused`: it may be until what is there was read."""
        deadline = time.monotonic() + _PATIENCE
        while self._mirror != (table := self._table()):
            if not refused or time.monotonic() > deadline:
                self._healthy(deadline)
            self._drain(True)
        assert self._mirror == table

    def _until_reading(self, *, refused: bool = False) -> None:
        """`refused`: it was until now."""
        deadline = time.monotonic() + _PATIENCE
        while not reads(self.one):
            if not refused or time.monotonic() > deadline:
                self._healthy(deadline)
            self._drain(True)  # journals that begin anew wait for it
            time.sleep(0.05)

    def _healthy(self, deadline: float) -> None:
        status = self.one.status()
        if status.error is not None and status.error.error in _REFUSED:
            raise Fault(f"a healthy source is refused: {status.error}")
        if time.monotonic() > deadline:
            raise Fault(f"not read in time: {status}, {sorted(self._mirror.items() ^ self._table().items())[:10]}")

    def _refused(self) -> None:
        """It is so and stays so."""
        deadline, seen = time.monotonic() + _PATIENCE, 0
        while seen < 10:
            status = self.one.status()
            seen = seen + 1 if status.error is not None and status.error.error in _REFUSED else 0
            if time.monotonic() > deadline or (status.state == "running" and seen):
                raise Fault(f"a source that was set back is read: {status}")
            time.sleep(0.05)
