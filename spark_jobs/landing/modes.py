"""Modes of bringing a table's changes into the lake, by table: plain values of the lake's configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase


class Mode(StrEnum):
    """The action of a run on a table's share of a claim before it acks."""

    MERGE = "merge"  # merges it into the table
    LAND_FIRST = "land_first"  # appends it to the table's log, from which the table follows
    HISTORY = "history"  # the same, and a second table has every version of each row
    APPEND = "append"  # appends it to the table's log, and there is no merged table

    @property
    def lands(self) -> bool:
        return self is not Mode.MERGE

    @property
    def follows(self) -> bool:
        """Whether the table is merged from its log."""
        return self in (Mode.LAND_FIRST, Mode.HISTORY)


@dataclass(frozen=True, slots=True)
class Modes:
    """`tables` maps patterns (`shop.*`, as in a shell) to modes; the first that fits counts, else `default`."""

    default: Mode = Mode.MERGE
    tables: Mapping[str, Mode] = field(default_factory=dict)

    def of(self, table: str) -> Mode:
        """The mode of `database.table`."""
        return next((one for pattern, one in self.tables.items() if fnmatchcase(table, pattern)), self.default)

    @property
    def any_lands(self) -> bool:
        """Whether some table may be landed."""
        return any(one.lands for one in (self.default, *self.tables.values()))

    @property
    def all_land(self) -> bool:
        """Whether no table is merged by the run that claims."""
        return all(one.lands for one in (self.default, *self.tables.values()))


MERGE_ALL = Modes()


def modes_json(modes: Modes) -> str:
    """Returns the modes as text, for a configuration."""
    return json.dumps(asdict(modes))


def modes_from(text: str) -> Modes:
    """The modes that `modes_json` wrote; `merge` for an empty object."""
    node = json.loads(text)
    tables = {pattern: Mode(one) for pattern, one in node.get("tables", {}).items()}
    return Modes(Mode(node.get("default", Mode.MERGE)), tables)
