"""Policies for changes of a table at the source: plain values of the lake's configuration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase


class Changed(StrEnum):
    """The effect on a lake table when the source alters, renames, empties or drops its own."""

    EVOLVE = "evolve"  # the lake follows
    LENIENT = "lenient"  # the same, but columns that the source drops stay
    IGNORE = "ignore"  # columns stay as they are; the source's new columns are left out
    EXCEPTION = "exception"  # the table stops
    ASK = "ask"  # the table stops until somebody approves the change


class Dropped(StrEnum):
    """The effect on a lake table when the source drops its own."""

    KEEP = "keep"  # its rows stay, and it is marked
    ARCHIVE = "archive"  # its rows move aside, below `_sluice`
    DROP = "drop"  # its rows and files go; its log stays


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """The policy for one table."""

    dropped: Dropped = Dropped.KEEP
    changed: Changed = Changed.EVOLVE


@dataclass(frozen=True, slots=True)
class Policies:
    """`tables` maps patterns (`shop.*`, as in a shell) to policies; the first that fits counts, else `default`. A table
    of at most about `copy_rows` rows that needs a copy is copied in the run."""

    default: TablePolicy = TablePolicy()
    tables: Mapping[str, TablePolicy] = field(default_factory=dict)
    copy_rows: int = 1_000_000

    def of(self, table: str) -> TablePolicy:
        """Returns the policy of `database.table`."""
        return next((one for pattern, one in self.tables.items() if fnmatchcase(table, pattern)), self.default)


EVOLVE = Policies()


def policies_json(policies: Policies) -> str:
    """Returns the policies as text, for a configuration."""
    return json.dumps(asdict(policies))


def policies_from(text: str) -> Policies:
    """Returns the policies that `policies_json` wrote; the defaults for an empty object."""
    node = json.loads(text)
    if not node:
        return EVOLVE
    tables = {pattern: _policy(one) for pattern, one in node["tables"].items()}
    return Policies(_policy(node["default"]), tables, node["copy_rows"])


def _policy(node: Mapping[str, str]) -> TablePolicy:
    return TablePolicy(Dropped(node["dropped"]), Changed(node["changed"]))
