"""The result of a table's comparison, or the reason why it could not be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymysql

from cdc_core.errors import SluiceError
from cdc_core.position import EntryPosition
from spark_jobs.lake.failures import first_line

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Comparison:
    """`missing` rows are at the source alone, `extra` in the lake alone; `different` have one key, other values.
    `quarantined`: keys that may differ, and are in none of the three: their rows wait in the quarantine."""

    source_rows: int
    lake_rows: int
    missing: int
    extra: int
    different: int
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """One table's comparison at `position`. `definition`: a sentence for each difference between its definitions.
    `error`: why it could not be compared; its `comparison` is None then. `repaired`: the number of rows that differed,
    and were repaired before the counts. `remedy`: what to do about a table that differs; `repairable`: replacing the
    rows that differ is enough. `on_purpose`: by correction, how many rows it made different from the source's, which
    are in none of the other counts."""

    table: str
    comparison: Comparison | None
    position: EntryPosition
    definition: tuple[str, ...] = ()
    error: str = ""
    repaired: int = 0
    remedy: str = ""
    repairable: bool = False
    on_purpose: Mapping[str, int] = field(default_factory=dict)

    @property
    def differences(self) -> int:
        """Rows and parts of the definition that differ; 1 for a table that could not be compared."""
        if self.comparison is None:
            return 1
        found = self.comparison
        return found.missing + found.extra + found.different + len(self.definition)

    def to_dict(self) -> dict[str, Any]:
        """As `sluice verify` prints it. The counts of a table that could not be compared are null."""
        names = ("source_rows", "lake_rows", "missing", "extra", "different")
        waits = self.comparison.quarantined if self.comparison else 0
        return {
            "table": self.table,
            **{name: getattr(self.comparison, name, None) for name in names},
            **({"quarantined": waits} if waits else {}),
            "position": str(self.position),
            "definition": list(self.definition),
            "error": self.error or None,
            "repaired": self.repaired,
            "remedy": self.remedy or None,
            "on_purpose": dict(self.on_purpose) or None,
        }


def or_why_not(name: str, position: EntryPosition, compared: Callable[[], Answer]) -> Answer | Verified:
    """Returns the comparison of one table, or why it cannot be compared: the others go on."""
    try:
        return compared()
    except SluiceError as error:
        return Verified(name, None, position, error=str(error))
    except pymysql.MySQLError as error:  # a discarded tablespace, a MERGE table that has no parts
        return Verified(name, None, position, error=f"the source cannot read the table: {error.args[-1]}")
    except Exception as error:  # an error of delta-rs or Arrow concerns this table alone
        return Verified(name, None, position, error=f"{type(error).__name__}: {first_line(error)}")
