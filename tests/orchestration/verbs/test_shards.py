"""What verbs and commands do that are given a union's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_core.errors import ConfigError, ServiceUnavailable
from cdc_core.schema.names import split_name
from orchestration.verbs import snapshot
from orchestration.verbs.access import Access
from orchestration.verbs.orders import JOBS, Accept, Copy, Ddl, Maintain, Order, Pause, Redo, Snapshot, Undo, Verify
from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.union.named import with_shards
from spark_jobs.union.publish import publish
from tests.support.registered import Said

ORDERS = Union("shop.orders", r"shop_(\d+)\.orders", ("shop",))
UNION, USERS, SHARDS = "shop.orders", "shop.users", ["shop_1.orders", "shop_2.orders"]


@contextmanager
def service() -> Iterator[Any]:
    """It captures a shard that the lake does not have yet."""
    names = ("shop_1.orders", "shop_3.orders", "shop_3.users")
    yield SimpleNamespace(tables=lambda: [SimpleNamespace(name=name) for name in names])


@contextmanager
def away() -> Iterator[Any]:
    raise ServiceUnavailable("nobody answers", place="http://x", hint="Start it.")
    yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """It has two shards of a union, one that the source has dropped, and another table."""
    lake = Lake(tmp_path, unions=Unions("eu", (ORDERS,)))
    for name in (*SHARDS, "shop_9.orders", USERS):
        noted = {DESTINATION: "eu", TABLE: name} | ({"sluice.dropped": "x"} if "9" in name else {})
        path, schema = lake.path(*split_name(name)), pa.schema({"id": pa.int64()})
        DeltaTable.create(path, schema, configuration=noted, raise_if_key_not_exists=False)
    return lake


def access(lake: Lake | None, connect: Any = away) -> Access:
    return Access("eu", 1001, connect, cast(Any, None), lake)


def test_a_verb_of_many_tables_is_done_to_all_shards(lake: Lake) -> None:
    """Each once, with other tables that are named, and with shards that are captured and not in the lake yet."""
    order = Verify(tables=[UNION, "shop_1.orders", USERS]).by_shards(access(lake))
    assert order.tables == [*SHARDS, USERS]
    assert Copy(tables=[UNION]).by_shards(access(lake, service)).tables == [*SHARDS, "shop_3.orders"]
    for kind, more in ((Maintain, {}), (Undo, {"batch": "1"})):
        assert kind(tables=[UNION], **more).by_shards(access(lake)).tables == SHARDS
    undo = Undo(tables=[UNION, "shop_1.orders"], batch="1").by_shards(access(lake))
    assert (undo.tables, undo.by_union) == (SHARDS, {"shop_2.orders"})
    assert Verify().by_shards(access(lake)).tables == []
    assert Verify(tables=[UNION]).by_shards(access(Lake(lake.root))).tables == [UNION]
    assert Verify(tables=[UNION]).by_shards(access(None)).tables == [UNION]


@pytest.mark.parametrize(
    "order",
    [
        Accept(table=UNION),
        Pause(table=UNION),
        Redo(tables=[UNION], number=1),
        Ddl(tables=[UNION], decision="approve"),
    ],
)
def test_a_verb_of_one_table_names_the_shards(lake: Lake, order: Order) -> None:
    """Before anything is done."""
    with pytest.raises(ConfigError, match="a union of 2 tables") as error:
        order.run(access(lake), Said())
    assert "Name a shard: shop_1.orders, shop_2.orders." in error.value.hint


def test_other_tables_are_left_as_they_are(lake: Lake) -> None:
    """Also those of a verb for one table, and the whole destination."""
    assert Pause(table="*").by_shards(access(lake)) == Pause(table="*")
    assert Redo(tables=[USERS], number=1).by_shards(access(lake)).tables == [USERS]
    assert Accept(table="shop_1.orders").by_shards(access(lake)).table == "shop_1.orders"


def test_every_verb_asks_for_the_shards(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever has tables: its work is given no union."""
    given = list[Any]()
    monkeypatch.setattr(snapshot, "run", lambda order, *_: given.append(order.tables))
    Snapshot(tables=[UNION]).run(access(lake), Said())
    assert given == [SHARDS]
    assert {one.VERB for one in JOBS if not one.BY_SHARDS} == {"redo", "ddl"}


def test_a_shard_that_its_union_cannot_have_is_reported(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the verbs that are about it: what they did is right, and the union lacks it."""
    write_deltalake(lake.path("shop_1", "orders"), pa.table({"id": [1]}), mode="append")
    publish(lake, ORDERS)
    write_deltalake(lake.path("shop_2", "orders"), pa.table({"id": ["x"]}), mode="overwrite", schema_mode="overwrite")
    monkeypatch.setattr(snapshot, "run", lambda *_: None)
    for tables, failed in (([], True), ([UNION], True), ([USERS], False), (["shop_1.orders"], False)):
        said = Said()
        Snapshot(tables=tables).run(access(lake), said)
        assert ("it cannot be in shop.orders" in said.failed.get("orders", "")) == failed, tables


def test_a_union_without_tables_is_an_error(tmp_path: Path) -> None:
    """A pattern may be misspelled."""
    lake = Lake(tmp_path, unions=Unions("eu", (ORDERS,)))
    with pytest.raises(ConfigError, match="a union without a table"):
        with_shards(lake, [UNION])
