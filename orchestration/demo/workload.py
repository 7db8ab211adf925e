"""The shop's workload: transactions at a steady rate until it is stopped.

There are inserts, updates, deletes, changed primary keys, transactions over several tables, and rollbacks.
The rate is in changed rows per second; a server that cannot keep up gets as many as it takes.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from cdc_core.position import EntryPosition
from orchestration.demo import shop
from orchestration.demo.freshness import Sample

_SAMPLE_SECONDS = 0.25
_MAX_SAMPLES = 100_000  # some hours; bounds the memory of a demo that is left running
_PATHS = ("/", "/cart", "/search?q=tea", "/p/17", "/p/42", "/account")


class Workload:
    """A thread that is the only writer of the shop.

    `rows` and `transactions` count what was committed; `samples` have the times and the binlog positions.
    `error` is what ended the thread.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Any]],
        *,
        rate: float,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rows = 0
        self.transactions = 0
        self.samples: list[Sample] = []
        self.error: Exception | None = None
        self._connect = connect
        self._rate = rate
        self._rng = rng or random.Random(7)  # noqa: S311
        self._clock = clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._orders: list[int] = []
        self._next_order = shop.ORDERS + 1
        self._next_customer = shop.CUSTOMERS + 1
        self._actions = (
            (self._check_out, 46),
            (self._browse, 14),
            (self._sign_up, 8),
            (self._send, 12),
            (self._reorder_addresses, 6),
            (self._swap_stock, 4),
            (self._reprice, 6),
            (self._cancel, 4),
            (self._forget_views, 3),
            (self._change_mind, 2),
        )

    def __repr__(self) -> str:
        return f"<Workload rows={self.rows} transactions={self.transactions}>"

    def start(self) -> None:
        """Starts the workload, or continues it after a stop."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns after the last commit. Raises the error that has ended the workload."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self.error is not None:
            raise self.error

    def step(self, cursor: Cursor) -> int:
        """Runs one transaction and returns the number of rows that it changed and committed."""
        action = self._rng.choices([a for a, _ in self._actions], [w for _, w in self._actions])[0]
        cursor.execute("BEGIN")
        changed = action(cursor)
        cursor.execute("COMMIT")
        self.rows += changed
        self.transactions += 1
        return changed

    def _run(self) -> None:
        try:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"USE {shop.DATABASE}")
                while not self._stop.is_set():
                    self._sample(cursor)
        except Exception as error:
            self.error = error

    def _sample(self, cursor: Cursor) -> None:
        """Runs some transactions, then pauses to keep the rate."""
        since, before = self._clock(), self.rows
        while not self.rows > before or self._clock() < since + _SAMPLE_SECONDS / 2:
            self.step(cursor)
            if self.rows - before >= self._rate * _SAMPLE_SECONDS:
                break
        changed = self.rows - before
        if len(self.samples) < _MAX_SAMPLES:
            self.samples.append(Sample(since, _version(cursor), changed))
        self._stop.wait(max(0.0, since + changed / self._rate - self._clock()))

    def _check_out(self, cursor: Cursor) -> int:
        rng, order = self._rng, self._next_order
        self._next_order += 1
        products = rng.sample(range(1, shop.PRODUCTS + 1), rng.randint(1, 5))
        items = [(order, line, number, rng.randint(1, 4), f"{9 + number}.95") for line, number in enumerate(products)]
        note = rng.choice((None, "gift", "ring twice, danke schön"))
        head = (order, self._customer(), "open", rng.choice(("web", "app", "web,app")), f"{order % 900}.50", note)
        changed = _many(cursor, shop.INSERT_ORDER, [head])
        changed += _many(cursor, shop.INSERT_ITEM, items)
        payment = (rng.randbytes(16), order, rng.choice(("card", "bill", "voucher")), f"{order % 900}.50", b"ok\x00")
        changed += _many(cursor, shop.INSERT_PAYMENT, [payment])
        changed += cursor.execute("UPDATE orders SET status = 'paid' WHERE id = %s", (order,))
        marks = ", ".join(["%s"] * len(products))
        taken = f"UPDATE inventory SET quantity = quantity - 1 WHERE warehouse = %s AND product_id IN ({marks})"  # noqa: S608
        changed += cursor.execute(taken, (rng.choice(shop.WAREHOUSES), *products))
        self._orders.append(order)
        return changed

    def _browse(self, cursor: Cursor) -> int:
        view = (self._rng.choice((None, self._customer())), self._rng.choice(_PATHS), "00:00:07.250001")
        return _many(cursor, shop.INSERT_VIEW, [view] * self._rng.randint(1, 3) + [(None, "/", None)] * 5)

    def _sign_up(self, cursor: Cursor) -> int:
        number = self._next_customer
        self._next_customer += 1
        changed = _many(cursor, shop.INSERT_CUSTOMER, [shop.customer(self._rng, number)])
        return changed + _many(cursor, shop.INSERT_ADDRESS, [shop.address(self._rng, number, slot) for slot in (1, 2)])

    def _send(self, cursor: Cursor) -> int:
        some = self._rng.sample(self._orders, min(8, len(self._orders))) or [0]
        marks = ", ".join(["%s"] * len(some))
        return cursor.execute(f"UPDATE orders SET status = 'sent', note = NULL WHERE id IN ({marks})", some)  # noqa: S608

    def _reorder_addresses(self, cursor: Cursor) -> int:
        """Changes primary keys."""
        sql = "UPDATE addresses SET slot = slot + 1 WHERE customer_id = %s AND slot < 60000 ORDER BY slot DESC"
        return cursor.execute(sql, (self._customer(),))

    def _swap_stock(self, cursor: Cursor) -> int:
        """Swaps the primary keys of two rows within one transaction."""
        number = self._rng.randint(1, shop.PRODUCTS)
        sql = "UPDATE inventory SET warehouse = %s WHERE warehouse = %s AND product_id = %s"
        moves = (("TMP", "BER"), ("BER", "OSL"), ("OSL", "TMP"))
        return sum(cursor.execute(sql, (*move, number)) for move in moves)

    def _reprice(self, cursor: Cursor) -> int:
        sale = "JSON_SET(attributes, '$.sale', %s)"
        sql = f"UPDATE products SET price = price + 0.01, attributes = {sale} WHERE id %% 20 = %s"  # noqa: S608
        changed = cursor.execute(sql, (self._rng.randint(1, 99), self._rng.randrange(20)))
        visits = "JSON_SET(preferences, '$.visits', %s)"
        sql = f"UPDATE customers SET vip = 1 - vip, preferences = {visits} WHERE id = %s"  # noqa: S608
        return changed + cursor.execute(sql, (self._rng.randint(10, 99), self._customer()))

    def _cancel(self, cursor: Cursor) -> int:
        if not self._orders:
            return 0
        order = self._orders.pop(self._rng.randrange(len(self._orders)))
        changed = sum(
            cursor.execute(f"DELETE FROM {table} WHERE order_id = %s", (order,))  # noqa: S608
            for table in ("payments", "order_items")
        )
        return changed + cursor.execute("DELETE FROM orders WHERE id = %s", (order,))

    def _forget_views(self, cursor: Cursor) -> int:
        """Deletes and updates some of several equal rows, in the table without a key."""
        path = self._rng.choice(_PATHS)
        changed = cursor.execute("UPDATE page_views SET path = '/moved' WHERE path = %s LIMIT 3", (path,))
        return changed + cursor.execute("DELETE FROM page_views WHERE path = '/' LIMIT 4")

    def _change_mind(self, cursor: Cursor) -> int:
        cursor.execute("UPDATE products SET price = price * 2")
        cursor.execute("ROLLBACK")
        return 0

    def _customer(self) -> int:
        return self._rng.randrange(1, self._next_customer)


def _version(cursor: Cursor) -> int:
    """The end of the binlog as one integer."""
    cursor.execute("SHOW MASTER STATUS")
    row = cursor.fetchone()
    assert row is not None
    return EntryPosition(row[0], int(row[1])).version()


def _many(cursor: Cursor, sql: str, rows: Sequence[tuple[object, ...]]) -> int:
    return int(cursor.executemany(sql, rows) or 0)


def open_shop(connection: Connection[Any], rng: random.Random) -> None:
    """Creates the schema and its first rows."""
    with connection.cursor() as cursor:
        for statement in shop.SCHEMA:
            cursor.execute(statement)
        for sql, rows in shop.first_rows(rng):
            cursor.executemany(sql, rows)


def add_history(connection: Connection[Any]) -> None:
    """Fills an open shop with the orders of earlier years, 200,000 rows."""
    with connection.cursor() as cursor:
        for statement in shop.HISTORY:
            cursor.execute(statement)
