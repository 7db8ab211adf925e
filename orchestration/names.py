"""What the things of one destination are called in Dagster: asset keys and names, in one place.

Asset keys carry the destination's own name; Dagster's other names allow letters, digits and underscores alone, so there
the rest becomes an underscore. Two destinations that fall together that way are refused when they are loaded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import dagster as dg

DESTINATION_TAG = "cdc/destination"
ACKED_TAG = "cdc/to"  # how far a run acked; a run without it acked nothing


@dataclass(frozen=True, slots=True)
class Names:
    """Names around one destination. Tables are given as `database.table`."""

    destination: str

    @property
    def safe(self) -> str:
        return re.sub(r"[^A-Za-z0-9_]", "_", self.destination)

    @property
    def asset(self) -> str:
        """The multi-asset's, its pool's and its op's name."""
        return f"cdc_{self.safe}"

    @property
    def job(self) -> str:
        return f"drain_{self.safe}"

    @property
    def canal(self) -> str:
        return f"canal_{self.safe}"

    @property
    def lake(self) -> str:
        return f"lake_{self.safe}"

    @property
    def store(self) -> dg.AssetKey:
        return dg.AssetKey(["cdc", self.destination, "store"])

    def source(self, table: str) -> dg.AssetKey:
        return dg.AssetKey(["mysql", self.destination, *table.split(".", 1)])

    def delta(self, table: str) -> dg.AssetKey:
        return dg.AssetKey(["delta", self.destination, *table.split(".", 1)])

    @property
    def run_tags(self) -> dict[str, str]:
        return {DESTINATION_TAG: self.destination}
