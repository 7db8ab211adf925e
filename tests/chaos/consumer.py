"""A consumer that knows only ZooKeeper. It claims, merges and acks through every fault, and sometimes dies itself."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter

from cdc_core.client.connector import Connector
from cdc_core.contract.reached import How
from cdc_core.errors import (
    CursorError,
    RangeGone,
    RunsElsewhere,
    RunsNowhere,
    ServiceUnavailable,
    SessionError,
    SluiceError,
    SourceUnavailable,
)
from tests.chaos.lake import MemoryLake

# What a fault may bring upon a client. Others end the consumer: nothing that is killed makes bytes unreadable.
ELSEWHERE = (RunsElsewhere, RunsNowhere, ServiceUnavailable, SourceUnavailable)
EXPECTED = (CursorError, RangeGone, SessionError, *ELSEWHERE)
_LEASE = 8.0  # seconds: longer than a batch takes on a busy machine


class Consumer:
    """Works from `start` to `stop`, which raises the error that ended it. `rng` is its own."""

    def __init__(self, zookeeper: str, lake: MemoryLake, rng: random.Random) -> None:
        self.lake = lake
        self.batches = 0
        self.troubles: Counter[str] = Counter()
        self._hosts = zookeeper
        self._rng = rng
        self._lives = itertools.count()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="consumer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises the error that ended it, if any."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with Connector(None, "shop", zk_servers=self._hosts, timeout_seconds=10) as connector:
                    self._live(connector)
        except Exception as error:
            self._error = error

    def _live(self, connector: Connector) -> None:
        """Works until it dies. The next one begins with nothing but the lake, and is another owner."""
        owner = f"life {next(self._lives)}"
        try:
            self._check_acked(connector)
            while not self._stop.is_set():
                self._batch(connector, owner)
        except _Died:
            self.troubles["died"] += 1
        except EXPECTED as error:
            self.troubles[type(error).__name__] += 1
            time.sleep(0.2)
        except SluiceError as error:
            if type(error) is not SluiceError:  # a read that broke off has no other name
                raise
            self.troubles["read broke off"] += 1

    def _check_acked(self, connector: Connector) -> None:
        """Everything that was acked is in the lake."""
        reached = connector.client_status().reached
        assert reached is None or reached.how is not How.BATCH or reached.position.version() <= self.lake.end, (
            reached,
            self.lake.applied,
        )

    def _batch(self, connector: Connector, owner: str) -> None:
        rows = self._rng.choice((1, 20, 200, 5000))
        claim = connector.get_without_ack(rows, owner=owner, timeout_seconds=1, lease_seconds=_LEASE)
        if claim is None:
            return
        assert claim.epoch == 0
        for table in claim.tables:
            self.lake.merge(claim, table.schema, connector)
            self._maybe_die()
        connector.ack(claim)
        self.batches += 1
        self._maybe_die()

    def _maybe_die(self) -> None:
        if self._rng.random() < 0.02:
            raise _Died


class _Died(Exception):
    """Nothing is rolled back; the lease ends what is held."""
