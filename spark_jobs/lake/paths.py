"""Where things are in a lake: tables are at `{root}/{database}/{table}`, and what Sluice needs besides below
`{root}/_sluice`. The table of a shard is in the folder of its union:
`{union}/_sluice_shards/{destination}/{database}/{table}/{column}={value}`.
"""

from __future__ import annotations

from pathlib import Path

from cdc_core.errors import TableStopped
from cdc_core.schema.names import full_name, split_name
from spark_jobs.lake.folders import folder_of
from spark_jobs.lake.unions import NO_UNIONS, SHARDS, Shard, Union, Unions

LOG_SUFFIX, HISTORY_SUFFIX, QUARANTINE_SUFFIX = "__log", "__history", "__quarantine"
_BESIDE = (LOG_SUFFIX, HISTORY_SUFFIX, QUARANTINE_SUFFIX)


class Paths:
    """The paths below a root path or URI. `unions` say which tables of the source are shards of one table here."""

    def __init__(self, root: str | Path, unions: Unions = NO_UNIONS) -> None:
        self.root = str(root).rstrip("/")
        self.unions = unions

    def __repr__(self) -> str:
        return f"<Paths {self.root}>"

    @property
    def roots(self) -> list[str]:
        """Returns the paths below which tables are, `{database}/{table}`."""
        return [self.root, *map(self.shards_path, self.unions.all)]

    def path(self, database: str, table: str) -> str:
        """Returns a table's path. Raises TableStopped for a name that no folder can have; the servers allow no such
        name. So does a table of which it is not known where it goes."""
        shard = self.shard(database, table)
        root = self.shards_path(shard.union) if shard else self.root
        try:
            return f"{root}/{folder_of(database)}/{folder_of(table)}" + (f"/{shard.folder}" if shard else "")
        except ValueError as error:
            hint = "Rename it at the source, or leave it out with canal.instance.filter.black.regex."
            raise TableStopped(str(error), place=full_name(database, table), hint=hint) from error

    def shard(self, database: str, table: str) -> Shard | None:
        """Returns the shard that a table is, or None for a table of its own, a change log or a history. Raises
        TableStopped for a table of which it is not known where it goes."""
        if not self.unions or table.endswith(_BESIDE):
            return None
        return self.unions.of(full_name(database, table))

    def shards_path(self, union: Union) -> str:
        """Returns the path below which the destination's shards of a union are, as tables are below the root."""
        return f"{self.path(*split_name(union.table))}/{SHARDS}/{folder_of(self.unions.destination)}"

    def log_path(self, database: str, table: str) -> str:
        """Returns the path of a table's change log. Raises TableStopped for a name that no folder can have."""
        return self.path(database, f"{table}{LOG_SUFFIX}")

    def history_path(self, database: str, table: str) -> str:
        """Returns the path of a table's history. Raises TableStopped for a name that no folder can have."""
        return self.path(database, f"{table}{HISTORY_SUFFIX}")

    def quarantine_path(self, database: str, table: str) -> str:
        """Returns the path of the rows of a table that failed an expectation. Raises TableStopped for a name that no
        folder can have."""
        return self.path(database, f"{table}{QUARANTINE_SUFFIX}")

    def ledger_path(self, destination: str, client_id: int) -> str:
        return f"{self.root}/_sluice/{folder_of(destination)}/{client_id}/batches"

    def archive_path(self, destination: str, table: str, version: int) -> str:
        """Returns the path to which the rows of a dropped table move: `table` is `database.table`, `version` that of
        the DROP."""
        folders = "/".join(map(folder_of, split_name(table)))
        return f"{self.root}/_sluice/{folder_of(destination)}/archive/{folders}/{version}"

    def staging_path(self, destination: str, name: str) -> str:
        """Returns the path of rows that are not yet in their table."""
        return f"{self.root}/_sluice/{folder_of(destination)}/staging/{name}"

    def parking_path(self, destination: str, client_id: int) -> str:
        """Returns the path of the notes of tables that wait for another try of their merge."""
        return f"{self.root}/_sluice/{folder_of(destination)}/{client_id}/parked"

    def catalog_path(self, destination: str, client_id: int) -> str:
        """Returns the path of the notes of names in a catalog."""
        return f"{self.root}/_sluice/{folder_of(destination)}/{client_id}/catalog"

    def unions_path(self, destination: str) -> str:
        """Returns the path of the notes of unions."""
        return f"{self.root}/_sluice/{folder_of(destination)}/unions"

    def writer_path(self, destination: str) -> str:
        return f"{self.root}/_sluice/{folder_of(destination)}/writer"
