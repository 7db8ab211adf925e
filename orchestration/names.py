"""The asset keys and names of one destination in Dagster. No other module makes the key of a table.

Asset keys have the destination's own name, unless `translation` in defs.yaml gives tables others. In the names of
databases and tables there, a character that is no ASCII letter, digit or underscore is `-` and its code point in four
hexadecimal digits (`a-002db` for `a-b`). Dagster's other names allow only letters, digits and underscores, so there
every other character becomes an underscore. Two destinations whose names become the same are refused at loading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cdc_core.errors import safe_name
from cdc_core.schema.names import escaped, full_name, split_name, unescaped
from spark_jobs.following.history.columns import table_of

if TYPE_CHECKING:
    import dagster as dg  # the verbs of the command line do without it

    from orchestration.translation import Translation

DESTINATION_TAG = "cdc/destination"
JOB_TAG = "cdc/job_of"  # the destination of a run of any job but the drain
MERGE_TAG = "cdc/merge_of"  # the destination of a run that merges change logs
ACKED_TAG = "cdc/to"  # how far a run acked; a run without this tag acked nothing
UNTIL_TAG = "cdc/until"  # a run goes on with what another left: rows of before this time, in milliseconds since 1970
LEFT_TAG = "cdc/left"  # a run left such rows: its limits came first, or another job
PLACE = "place"  # in the metadata of a materialization: what its rows are as of, as `sluice now --as-of` takes it
PLACE_TAG = "cdc/place"  # the same as a tag of the materialization
_DATA_VERSION = "dagster/data_version"
UNION = "sluice/union"  # in the metadata of an asset: the table of the lake, which destinations may share
RUNS_KEPT_VARIABLE, RUNS_KEPT_DAYS = "SLUICE_RUNS_KEPT_DAYS", 7.0  # of runs that drained or merged; 0: for ever

MERGED = "merged"
"""The check of a table that is merged from its change log: its last merge did not fail."""
BUILT_IN = (
    "key_unique",
    "position_monotone",
    "rows_add_up",
    "takes_changes",
    "rows_landed",
    MERGED,
    "verified",
    "schema_change",
)
"""The names of Sluice's own checks of a table."""


def place_text(epoch: int, version: int) -> str:
    """Returns a place of an epoch as text."""
    return f"{epoch}.{version}"


def place_tags(metadata: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the tags of a materialization with this metadata: its place, which is the data's version for Dagster."""
    return dict.fromkeys((PLACE_TAG, _DATA_VERSION), str(metadata[PLACE])) if PLACE in metadata else None


# Dagster makes names of checks from an asset's key: other characters are an error there, or become `_`.
_ODD = re.compile(r"[^A-Za-z0-9_]|_(?=[0-9a-f]{4})")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one destination. Tables are `database.table`."""

    destination: str
    translation: Translation | None = None

    @property
    def safe(self) -> str:
        return safe_name(self.destination)

    def group(self, table: str) -> str:
        """Returns the group of a table's assets: one for each database."""
        database = safe_name(split_name(table)[0])
        return self.safe if database == self.safe else f"{self.safe}_{database}"

    @property
    def asset(self) -> str:
        """The name of the multi-asset, of its op and of its pool."""
        return f"cdc_{self.safe}"

    @property
    def job(self) -> str:
        return f"drain_{self.safe}"

    @property
    def merging(self) -> str:
        """The name of the multi-asset of the tables that follow their logs, of its op and its pool."""
        return f"merge_{self.safe}"

    @property
    def merging_job(self) -> str:
        return f"merge_logs_{self.safe}"

    @property
    def canal(self) -> str:
        return f"canal_{self.safe}"

    @property
    def lake(self) -> str:
        return f"lake_{self.safe}"

    @property
    def store(self) -> dg.AssetKey:
        return _key("cdc", self.destination, "store")

    def source(self, table: str) -> dg.AssetKey:
        return _key("mysql", self.destination, *_parts(table))

    def delta(self, table: str) -> dg.AssetKey:
        return self._lake(table, "table")

    def log(self, table: str) -> dg.AssetKey:
        return self._lake(table, "log")

    def history(self, table: str) -> dg.AssetKey:
        return self._lake(table, "history")

    def subject(self, key: dg.AssetKey) -> str:
        """Returns `database.table` of an asset of a table, as people write it; the last part of any other."""
        table = self.translation and self.translation.table(key)
        if table:
            return table.name
        *database, name = (unescaped(part, "-") for part in key.path[2:])
        return full_name(database[0], name) if database else name

    def check_apart(self, *, tables: Iterable[str], logs: Iterable[str], histories: Iterable[str]) -> None:
        """Raises ConfigError if `translation` in defs.yaml gives two of these one key."""
        if self.translation:
            for key, names in ((self.delta, tables), (self.log, logs), (self.history, histories)):
                for name in names:
                    key(name)
            self.translation.check_apart()

    def translated(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Returns the asset as `translation` in defs.yaml has it."""
        return self.translation.spec(spec) if self.translation else spec

    def _lake(self, table: str, kind: Literal["table", "log", "history"]) -> dg.AssetKey:
        """Returns the key of a table of the lake, of its change log or its history."""
        *database, name = _parts(table)
        suffix = "" if kind == "table" else f"__{kind}"
        plain = _key("delta", self.destination, *database, f"{name}{suffix}")
        if self.translation is None:
            return plain
        from orchestration.translation import LakeTable

        own = LakeTable(self.destination, ".".join(database), f"{name}{suffix}", kind, f"{table}{suffix}")
        return self.translation.key(plain, own)

    def followed(self, work: str) -> dg.AssetKey:
        """The asset of what a run that merges logs works on: a table, or its history."""
        table = table_of(work)
        return self.delta(work) if table is None else self.history(table)

    @property
    def run_tags(self) -> dict[str, str]:
        """Returns the tags of the runs that drain."""
        return {DESTINATION_TAG: self.destination}

    @property
    def merge_tags(self) -> dict[str, str]:
        """Returns the tags of the runs that merge change logs."""
        return {MERGE_TAG: self.destination}

    @property
    def job_tags(self) -> dict[str, str]:
        """Returns the tags of the runs of the other jobs."""
        return {JOB_TAG: self.destination}


def _key(*parts: str) -> dg.AssetKey:
    from dagster import AssetKey

    return AssetKey(list(parts))


def _parts(table: str) -> list[str]:
    return [escaped(part, _ODD, "-") for part in split_name(table)]
