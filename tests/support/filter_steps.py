"""A destination whose filter changes while it goes on: to tables of some names, or to all; by its configuration, or by
the filter that its client brought along (`sluice.client.filter = override`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from cdc_core.meta.cursors import Cursors
from cdc_core.schema.names import split_name
from tests.support.shop import Shop, until_running

ALL = "*"
_BY_CLIENT = "override "


def random_filter(rng: Random, names: Sequence[str]) -> str:
    """The argument of a step: names, or ALL; in one of three steps the client brings them along."""
    chosen = ALL if rng.random() < 0.4 else "|".join(sorted(rng.sample(list(names), rng.randint(2, len(names) - 1))))
    return (_BY_CLIENT if rng.random() < 0.33 else "") + chosen


@dataclass
class FilterSteps:
    """`conf` is the configuration directory of `shop`, which captures both `databases` at first."""

    shop: Shop
    conf: Path
    databases: tuple[str, str]
    outside: set[str] = field(default_factory=set)  # tables that the lake may have as they were when they left
    _names: str = ALL

    def change(self, argument: str) -> None:
        """Begins the destination again at its cursors with another filter."""
        by_client, names = argument.startswith(_BY_CLIENT), argument.removeprefix(_BY_CLIENT)
        regex = rf"({'|'.join(self.databases)})\.({'.*' if names == ALL else names})"
        connector = self.shop.connector
        connector.by_hand.stop()
        cursors: Cursors = self.shop.server.destination("shop").cursors
        cursors.set_filter(connector.client_id, regex if by_client else "")
        lines = ["sluice.client.filter = " + ("override" if by_client else "intersection")]
        if not by_client:
            lines.append("canal.instance.filter.regex = " + regex.replace("\\", "\\\\"))
        with (self.conf / "shop" / "instance.properties").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
        connector.by_hand.start()
        until_running(connector)
        self._names = names

    def leave_out(self, lake: Collection[str], source: Collection[str]) -> None:
        """Notes which tables of the lake are as they were when they left, by the tables of the source."""
        self.outside |= {table for table in lake if not self.captures(table)}
        self.outside -= {table for table in source if self.captures(table)}

    def captures(self, table: str) -> bool:
        """Whether the present filter lets the table of this full name through."""
        name = split_name(table)[1]
        return self._names == ALL or re.fullmatch(self._names, name, re.IGNORECASE) is not None
