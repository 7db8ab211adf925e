"""The views `{table}__now` after the merges of a job: rebuilt when they must be, not after each merge.

Building a view costs Spark as much as a MERGE. A view from before some merges is still exact, as long as nothing but
merges changed the table: it reads an earlier version, and more of the log. So it is rebuilt once an hour. What it was
built of is noted next to the ledger, with the Spark whose catalog has it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

import structlog
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from cdc_core.errors import SluiceError
from spark_jobs.following.now import refresh_view
from spark_jobs.following.pending import Follows
from spark_jobs.lake.catalog_names import SPARK_CATALOG
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.record import said
from spark_jobs.lake.state import TableState
from spark_jobs.session import Sessions

log = structlog.get_logger(__name__)
_PREFIX, _SECONDS = "sluice.view.", 3600.0


@dataclass
class Views:
    """The views of one run. Safe for several tables at the same time."""

    sessions: Sessions
    follows: Follows
    clock: Callable[[], float] = time.time
    _waiting: dict[str, int] = field(default_factory=dict)
    _spark: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def merged(self, table: str, epoch: int, state: TableState) -> None:
        """Notes that the table was merged up to a place of the epoch; `state` is from before."""
        made_of = [epoch, said(state.properties), [column.name for column in state.columns]]
        with self._lock:
            self._waiting[table] = crc32(json.dumps(made_of).encode())

    def make(self, seconds: float) -> None:
        """Rebuilds the views that must be, one after the other, until the time is over; the others go on waiting."""
        deadline = time.monotonic() + seconds
        try:
            noted = self._noted.read(_PREFIX) if self._waiting else {}
            while self._waiting and time.monotonic() < deadline:
                with self._lock:
                    table, made_of = self._waiting.popitem()
                if not self._is_current(noted.get(table, ""), made_of):
                    self._make(table, made_of)
        except (PySparkException, SluiceError) as error:
            log.warning("views were not rebuilt; the tables are right without them", why=first_line(error))

    def _make(self, table: str, made_of: int) -> None:
        if view_error := refresh_view(self.sessions, self.follows, table):
            log.warning("a view was not rebuilt", table=table, why=view_error)
        else:
            self._noted.write({_PREFIX + table: json.dumps([self._catalog(), made_of, self.clock()])})

    def _is_current(self, noted: str, made_of: int) -> bool:
        spark, was_made_of, at = json.loads(noted) if noted else ("", 0, 0.0)
        return bool(noted) and was_made_of == made_of and self.clock() - at < _SECONDS and spark == self._catalog()

    def _catalog(self) -> str:
        """Returns what names the catalog of the views: itself where it outlives Spark, otherwise this Spark."""
        if not self._spark:
            names = self.follows.lake.catalog
            with self.sessions.take() as spark:
                lasts = names is not None and (names.catalog != SPARK_CATALOG or _has_metastore(spark))
                self._spark = str(names) if lasts else spark.conf.get("spark.app.id", "") or ""
        return self._spark

    @property
    def _noted(self) -> Noted:
        follows = self.follows
        return Noted(follows.lake, follows.lake.parking_path(follows.destination, follows.client_id))


def _has_metastore(spark: SparkSession) -> bool:
    """Whether the session's own catalog is in a Hive metastore, and not in Spark's memory."""
    return spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive"
