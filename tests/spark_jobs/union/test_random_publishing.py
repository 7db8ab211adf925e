"""Random changes of the shards of two destinations, with publishers that are killed or late: a union's rows are those
of its shards in the end, and never those of a shard of before."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from spark_jobs.lake.state import DESTINATION, TABLE
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.unions import Union, Unions
from spark_jobs.union import publish as publishing
from spark_jobs.union.publish import publish

ORDERS = Union("shop.orders", r"shop_(\d)\.orders", ("shop",), "region")
COLUMNS = {"a": "string", "b": "integer", "c": "long"}


class Killed(Exception):
    """The publisher's end."""


class World:
    """A lake of two destinations with some shards each."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random, self._number = random.Random(seed), 0
        self.lakes = [Lake(root, unions=Unions(name, (ORDERS,))) for name in ("eu", "us")]

    def change(self, lake: Lake) -> None:
        """One commit of one shard, or its end."""
        name = f"shop_{self.random.randrange(4)}"
        path = lake.path(name, "orders")
        if not DeltaTable.is_deltatable(path):
            noted = {DESTINATION: lake.unions.destination, TABLE: f"{name}.orders"}
            schema = pa.schema([("id", pa.int64())])
            DeltaTable.create(path, schema, configuration=noted, raise_if_key_not_exists=False)
        match self.random.randrange(8):
            case 0:
                shutil.rmtree(path)
            case 1:
                DeltaTable(path).delete()
            case 2:
                DeltaTable(path).optimize.compact()
            case 3:
                self._widen(DeltaTable(path))
            case 4:
                write_deltalake(path, self._rows(path), mode="overwrite")
            case _:
                write_deltalake(path, self._rows(path), mode="append")

    def _widen(self, table: DeltaTable) -> None:
        there = {one.name for one in table.schema().fields}
        if lacking := sorted(COLUMNS.keys() - there):
            name = self.random.choice(lacking)
            table.alter.add_columns([Field(name, PrimitiveType(COLUMNS[name]))])

    def _rows(self, path: str) -> pa.Table:
        schema = pa.schema(DeltaTable(path).schema().to_arrow())
        made = []
        for _ in range(self.random.randrange(1, 4)):
            self._number += 1
            made.append({one.name: str(self._number) if one.name == "a" else self._number for one in schema})
        return pa.Table.from_pylist(made, schema)

    def expected(self) -> Counter[Any]:
        """What the shards have, with whose it is."""
        found = Counter[Any]()
        for lake in self.lakes:
            for number in range(4):
                path = lake.path(f"shop_{number}", "orders")
                if DeltaTable.is_deltatable(path):
                    values = {"region": lake.unions.destination, "shop": str(number)}
                    found.update(_key(row | values) for row in DeltaTable(path).to_pyarrow_table().to_pylist())
        return found

    def found(self) -> Counter[Any]:
        """What the union has."""
        path = self.lakes[0].path("shop", "orders")
        if not DeltaTable.is_deltatable(path):
            return Counter()
        return Counter(map(_key, DeltaTable(path).to_pyarrow_table().to_pylist()))


def _key(row: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if value is not None))


@pytest.mark.parametrize("seed", range(4))
def test_a_union_has_what_its_shards_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whoever is killed before, between or after its commits, and whoever else commits meanwhile."""
    world = World(tmp_path, seed)
    commit, reshape = publishing._commit, publishing._reshape

    def disturbed(act: Any) -> Any:
        def acting(*args: Any) -> None:
            fate = world.random.random()
            if fate < 0.1:
                raise Killed
            if fate < 0.3:
                lake = world.random.choice(world.lakes)
                world.change(lake)
                with monkeypatch.context() as quiet:
                    quiet.setattr(publishing, "_commit", commit)
                    quiet.setattr(publishing, "_reshape", reshape)
                    publish(lake, ORDERS, sleep=lambda _: None)
            act(*args)
            if fate > 0.9:
                raise Killed

        return acting

    for _ in range(25):
        lake = world.random.choice(world.lakes)
        world.change(lake)
        with monkeypatch.context() as patched:
            patched.setattr(publishing, "_commit", disturbed(commit))
            patched.setattr(publishing, "_reshape", disturbed(reshape))
            try:
                publish(lake, ORDERS, sleep=lambda _: None)
            except Killed:
                continue
        for other in world.lakes:
            publish(other, ORDERS)
        assert world.found() == world.expected()
    for lake in world.lakes:
        publish(lake, ORDERS)
    assert world.found() == world.expected()
