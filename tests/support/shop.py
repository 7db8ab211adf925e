"""From the binlog of MySQL into Delta by the real parts. All but MySQL and Spark run in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.client.trust import Trust
from cdc_core.contract.claim import Claim
from cdc_core.doors.certificate import Certificate, CertificateFiles
from cdc_core.doors.flight import FlightDoor
from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from cdc_core.schema.names import split_name
from cdc_core.server.server import CanalServer
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.cascade import Cascades
from spark_jobs.apply.checks import Verdict
from spark_jobs.apply.gate import gate
from spark_jobs.apply.result import Refusal
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.lake.fence import Fence
from spark_jobs.lake.tables import Lake
from spark_jobs.session import Sessions
from spark_jobs.snapshot.source import Source, connect
from spark_jobs.verify.verified import Verified
from tests.support.certificates import Authority
from tests.support.door_double import opened
from tests.support.judge.verify import Reader, verify
from tests.support.reading import nothing_between, until_read

_PATIENCE = 60.0  # seconds, for a service that is slow to read


@dataclass
class Shop:
    """A source, its service and a lake."""

    mysql: MySqlServer
    database: str
    connector: Connector
    lake: SparkLake
    server: CanalServer
    warnings: list[Verdict] = field(default_factory=list)

    def execute(self, *statements: str) -> None:
        self.mysql.execute(*statements, database=self.database)

    def read(self) -> EntryPosition:
        """Waits until the service has read all that the source has written. Returns where that ends."""
        until_running(self.connector)
        return until_read(self.connector.status, self.mysql, _PATIENCE)

    def claim(self, batch_size: int = 1000, *, owner: str = "test", lease_seconds: float = 1200.0) -> Claim:
        """A claim of all that the source has written, or of the first `batch_size` rows of it. Nobody renews it: a slow
        machine has twenty minutes for what the test does with it."""
        self.read()
        claim = self.connector.get_without_ack(
            batch_size, owner=owner, timeout_seconds=_PATIENCE, lease_seconds=lease_seconds
        )
        assert claim is not None, self.connector.status()
        return claim

    def drain(self, batch_size: int = 1000) -> list[str]:
        """Claims, applies, judges, notes and acks until nothing is left of what the source has written by now. It is
        all read before the first claim. Returns the tables that stopped."""
        stopped: list[str] = []
        end, deadline = self.read(), time.monotonic() + _PATIENCE
        while not self.reached(end):
            if (found := self.batch(batch_size)) is None:
                assert time.monotonic() < deadline, (end, self.connector.status())
                continue
            stopped += found
            deadline = time.monotonic() + _PATIENCE
        return stopped

    def batch(self, batch_size: int) -> list[str] | None:
        """One batch from its claim to its ack. Returns the tables that stopped, None where nothing is handed out."""
        mended: set[str] = set()
        with self.connector.claim(batch_size, owner="test", timeout_seconds=2, mended=mended) as claim:
            if claim is None:
                return None
            batch, verdicts = gate(claim, self.lake.apply(claim, "test", 2, claim.stopped))
            self.warnings += [verdict for verdict in verdicts if verdict.warns and not verdict.passed]
            for refusal in batch.refused:
                self._stop(claim, refusal)
            self.lake.note(claim, batch, "test")
            mended.update(batch.mended)
        return [refusal.table for refusal in batch.refused]

    def skip(self) -> None:
        """Acks all that there is, without a look at it."""
        until_running(self.connector)
        end, deadline = EntryPosition(*self.mysql.position()), time.monotonic() + _PATIENCE
        while not self.reached(end):
            assert time.monotonic() < deadline, (end, self.connector.status())
            if claim := self.connector.get_without_ack(1000, owner="test", timeout_seconds=1.0):
                self.connector.ack(claim)

    def _stop(self, claim: Claim, refusal: Refusal) -> None:
        error, needed = refusal.error, refusal.copy_needed
        self.connector.stop_table(
            refusal.table, reason=error.message, hint=error.hint, position=claim.start, copy_needed=needed
        )

    def compared(self, *tables: str, database: str | None = None) -> list[Verified]:
        """Source and lake compared, of the shop's own database if no other is named."""
        where = Source(self.mysql.host, self.mysql.port, self.mysql.user, self.mysql.password)
        reader = Reader("shop", self.connector.client_id, self.connector.client_status().epoch, self._cursor)
        named = [(database or self.database, table) for table in tables]
        return list(verify(where, named, self.lake.lake, reader, timeout_seconds=_PATIENCE))

    def differences(self, *tables: str, database: str | None = None) -> dict[str, tuple[int, int, int]]:
        """Missing, extra and different rows of each table."""
        counts = {}
        for row in self.compared(*tables, database=database):
            assert row.comparison is not None, row.error
            name = split_name(row.table)[1]
            counts[name] = (row.comparison.missing, row.comparison.extra, row.comparison.different)
        return counts

    def reached(self, end: EntryPosition) -> bool:
        """Whether every row before `end` is acked."""
        return nothing_between(self.mysql, self._cursor(), end)

    def _cursor(self) -> EntryPosition | None:
        return self.connector.client_status().cursor


@contextmanager
def opened_shop(
    mysql: MySqlServer, spark_remote: str, tmp_path: Path, authority: Authority | None = None, **keys: str
) -> Iterator[Shop]:
    """A shop that reads. `keys` are additional lines of instance.properties, with `_` for `.`. With an `authority` its
    doors speak TLS."""
    tls = authority and Certificate(CertificateFiles(authority.certificate, authority.key))
    trust = Trust(authority.pem if authority else "")
    with mysql.database("merge") as database:
        conf = write_conf(tmp_path / "conf", mysql, database, **keys)
        server = CanalServer(config.load_service(conf)[0], conf)
        server.start()
        try:
            with (
                opened(HttpDoor(server, "127.0.0.1", 0, certificate=tls)) as http,
                opened(FlightDoor(server, "127.0.0.1", 0, certificate=tls)) as rows,
                Connector(http.url, "shop", flight_url=rows.url, trust=trust) as connector,
                Sessions(spark_remote) as sessions,
            ):
                until_running(connector)
                lake = Lake(tmp_path / "lake", complete=True)
                whole = SparkLake(connector, lake, sessions, "", Fence(lake, sessions))
                yield Shop(mysql, database, connector, whole, server)
        finally:
            server.stop()


def write_conf(conf: Path, mysql: MySqlServer, database: str, **keys: str) -> Path:
    """The configuration of a destination `shop` that captures a database from now on. `keys` as in `opened_shop`."""
    journal, offset = mysql.position()
    lines = {
        "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
        "canal.instance.master.journal.name": journal,
        "canal.instance.master.position": offset,
        "canal.instance.dbUsername": mysql.user,
        "canal.instance.dbPassword": mysql.password,
        "canal.instance.filter.regex": f"{database}\\\\..*",
        **{key.replace("_", "."): value for key, value in keys.items()},
    }
    (conf / "shop").mkdir(parents=True)
    (conf / "canal.properties").write_text("canal.destinations = shop\ncanal.withoutNetty = true\n")
    text = "".join(f"{key} = {value}\n" for key, value in lines.items())
    (conf / "shop" / "instance.properties").write_text(text)
    return conf


@contextmanager
def reading_source(shop: Shop) -> Iterator[Shop]:
    """The same shop, whose runs read the source: they copy tables that need it, and follow foreign keys."""
    mysql, lake = shop.mysql, shop.lake
    source = Source(mysql.host, mysql.port, mysql.user, mysql.password)

    def captured() -> set[tuple[str, str]]:
        return {(table.database, table.table) for table in shop.connector.tables()}

    with Cascades(lambda: connect(source), captured, "null") as cascades:
        yield replace(shop, lake=replace(lake, source=source, cascades=cascades, zero_dates="null"))


def until_running(connector: Connector) -> None:
    """Waits until the destination runs."""
    deadline = time.monotonic() + _PATIENCE
    while (status := connector.status()).state != "running":
        assert time.monotonic() < deadline, status
        time.sleep(0.1)
