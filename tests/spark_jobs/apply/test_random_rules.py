"""Random tables behind random rules, by the real parts, end in a clean comparison: by stream, by copy, by other
rules, and by runs that are killed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from cdc_core import config
from cdc_core.client.connector import Connector
from cdc_core.rules.rules import Rules
from cdc_core.rules.table_rule import TableRule
from orchestration.stack.mysql.server import MySqlServer
from spark_jobs.apply.spark_lake import SparkLake
from spark_jobs.load.loader import Loader
from spark_jobs.load.result import Copied
from spark_jobs.snapshot.source import captured_source
from spark_jobs.verify.comparer import TableComparer
from tests.support.landed import Killed, dies
from tests.support.marks import tiers
from tests.support.random_rules import SALT, rule_for
from tests.support.random_tables import table
from tests.support.shop import Shop, opened_shop

pytestmark = pytest.mark.integration
_TABLES = 4
_STEPS = ((SparkLake, "apply", True), (SparkLake, "note", False), (SparkLake, "note", True), (Connector, "ack", False))


def drawn(rng: Random, shop: Shop) -> Rules:
    """A rule for each table of the shop."""
    found: dict[str, TableRule] = {one.name: rule_for(rng, one) for one in shop.connector.tables()}
    return Rules(found)


@pytest.mark.parametrize("seed", tiers(full=[0, 1], turns=[2]))
def test_the_lake_is_what_the_rules_make_of_the_source(
    seed: int, mysql8: MySqlServer, spark_remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without keys, of all types; images that leave columns out among them."""
    monkeypatch.setenv(SALT, f"salt {seed}")
    rng = Random(seed)
    tables = [table(rng, f"t{number}", json_type=True) for number in range(_TABLES)]
    with opened_shop(mysql8, spark_remote, tmp_path) as shop:
        shop.execute(*(one.create for one in tables))
        shop.read()
        shop.connector.set_rules(drawn(rng, shop))
        instance = config.load_instance(tmp_path / "conf", "shop")[0]

        def agree() -> None:
            source = captured_source(instance, shop.connector.status().source, shop.connector.rules())
            comparer = TableComparer(shop.connector, source, shop.lake.lake)
            for one in tables:
                found = comparer.table(shop.database, one.name)
                assert not found.error, (one.create, shop.connector.rules(), found)
                assert not found.differences, (one.create, shop.connector.rules(), found)

        def drained() -> None:
            """By a run that dies at a step of its first batch, and by another one."""
            owner, step, behind = rng.choice(_STEPS)
            with monkeypatch.context() as patch:
                dies(patch, owner, step, behind=behind)
                with pytest.raises(Killed):
                    shop.drain(batch_size=rng.choice((20, 1000)))
            assert shop.drain() == []

        half = max(len(one.changes) for one in tables) // 2
        shop.execute(*(change for one in tables for change in one.changes[:half]))
        drained()
        agree()
        loader = Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions)
        shop.connector.set_rules(drawn(rng, shop))
        for one in tables:
            assert isinstance(loader.table(shop.database, one.name), Copied)
        shop.execute(*(change for one in tables for change in one.changes[half:]))
        drained()
        agree()
