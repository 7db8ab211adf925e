"""A table copied while others write to the source and the drain goes on."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_core.errors import SluiceError, SourceError
from cdc_core.position import EntryPosition
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.load.result import Copied
from tests.support.copying import loader_of
from tests.support.shop import Shop, opened_shop
from tests.support.threads import Over, beside

pytestmark = pytest.mark.integration


@contextmanager
def busy(shop: Shop) -> Iterator[Callable[[float], None]]:
    """Rows are inserted, updated and deleted all the time, in a table with a key and in one without. What it yields
    sleeps until some more were."""
    written = threading.Event()

    def write(over: Over) -> None:
        rng = random.Random(7)
        with shop.mysql.root(shop.database) as connection, connection.cursor() as cursor:
            number = 100
            while not over(0.02):
                number += 1
                old = rng.randrange(number)
                cursor.execute(f"INSERT INTO keyed VALUES ({number}, 'new')")
                cursor.execute(f"UPDATE keyed SET v = CONCAT(v, '.') WHERE id IN ({old}, {old + 1})")
                cursor.execute(f"DELETE FROM keyed WHERE id = {rng.randrange(number)}")
                cursor.execute(f"INSERT INTO copies VALUES ({number % 5}, 'new'), ({number % 5}, 'new')")
                cursor.execute(f"DELETE FROM copies WHERE id = {old % 5} LIMIT 1")
                connection.commit()
                written.set()

    def until_written(seconds: float) -> None:
        time.sleep(seconds)
        for _ in range(2):  # the first may be of a commit before this call
            written.clear()
            written.wait(60)

    with beside(write):
        yield until_written


@contextmanager
def draining(shop: Shop) -> Iterator[None]:
    """Runs follow one another; one that loses its claim or its table gives the batch back."""

    def drain(over: Over) -> None:
        while not over(0.0):
            try:
                shop.batch(100_000)
            except SluiceError:
                over(0.5)

    with beside(drain):
        yield


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.parametrize("name", ["mysql8", "mysql57", "mariadb"])
def test_tables_are_copied_under_a_busy_writer(
    name: str, spark_remote: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With a key no lock is needed. Without one the place must be exact: the account lacks the privilege at first, and
    the error names it. Afterwards both tables are as the source."""
    server: MySqlServer = request.getfixturevalue(name)
    with opened_shop(server, spark_remote, tmp_path) as shop:
        shop.execute(
            "CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(200))",
            "CREATE TABLE copies (id INT, v VARCHAR(20))",
            f"INSERT INTO keyed VALUES {', '.join(f'({n}, {n})' for n in range(100))}",
            "INSERT INTO copies SELECT id % 5, 'old' FROM keyed",
        )
        assert shop.drain() == []
        for table in ("keyed", "copies"):
            DeltaTable(shop.lake.lake.path(shop.database, table)).delete("id % 2 = 0")
        shop.connector.stop_table(
            f"{shop.database}.keyed", reason="damaged", hint="Copy it.", position=EntryPosition(*server.position())
        )
        loader = loader_of(shop, tmp_path / "conf")
        with draining(shop), busy(shop) as until_written:  # the writer ends first, so that nothing is left to drain
            if name != "mariadb":
                with pytest.raises(SourceError, match=r"does not come to rest.*GRANT LOCK TABLES"):
                    loader.copy(shop.database, "copies", sleep=lambda _: until_written(0))
            if name == "mysql57":
                server.execute(f"GRANT LOCK TABLES ON *.* TO '{server.user}'@'%'")
            keyed = loader.copy(shop.database, "keyed", sleep=until_written)
            if name == "mysql8":
                assert isinstance(keyed, Copied)
                server.execute(f"GRANT LOCK TABLES ON *.* TO '{server.user}'@'%'")
            copies = loader.copy(shop.database, "copies")
            assert isinstance(copies, Copied)
            assert copies.place.exact
            time.sleep(3)
        if name != "mariadb":
            server.execute(f"REVOKE LOCK TABLES ON *.* FROM '{server.user}'@'%'")
        assert shop.connector.client_status().stopped == ()
        assert shop.drain() == []
        same = dict.fromkeys(("keyed", "copies"), (0, 0, 0))
        assert shop.differences(*same) == same
