"""Reloads tables of a shop."""

from __future__ import annotations

from pathlib import Path

from cdc_core import config
from spark_jobs.load.loader import Loader
from tests.support.shop import Shop


def loader_of(shop: Shop, conf: Path) -> Loader:
    """What copies its tables. `conf`: where the shop's configuration is."""
    instance, _ = config.load_instance(conf, "shop")
    return Loader(shop.connector, instance, shop.lake.lake, shop.lake.sessions)
