"""What was registered, noted next to the ledger: the names by path, the rules, the folders that were looked at, and
whether a DDL statement came since."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from cdc_core.errors import LakeError
from spark_jobs.lake.catalog_names import CatalogName, CatalogRules, catalog_from, catalog_json
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake

_STATE = "sluice.catalog."
_RULES, _SEEN, _OWED, _DONE, _ROOT, _AGAIN = "rules", "seen", "owed", "done", "root", "again"
_NAME, _VIEW = "name.", "view."
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 86400.0  # seconds until what failed is tried again


class NamedPlace(NamedTuple):
    """A Delta table's folder below the lake's root; or the view of the change log there."""

    folder: str
    view: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """`names`: those that Sluice gave, or was about to give. `seen`: the folders of the tables that were looked at.
    `owed` differs from `done` if a statement has changed tables since. `root`: where the lake was when the names were
    given, or "". If something failed, it is tried again `pause` seconds later, at the time `again`."""

    rules: CatalogRules | None
    names: Mapping[NamedPlace, frozenset[CatalogName]]
    seen: frozenset[str]
    owed: str
    done: str
    root: str = ""
    again: float = 0.0
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class CatalogNotes:
    """The notes of one client of a destination."""

    lake: Lake
    destination: str
    client_id: int

    def read(self) -> Standing:
        """Returns what is noted. Raises LakeError."""
        found = self._noted.read(_STATE)
        again, pause = json.loads(found.get(_AGAIN, "[0, 0]"))
        return Standing(
            catalog_from(found.get(_RULES, "{}")),
            {_place(key): _names(text) for key, text in found.items() if key.startswith((_NAME, _VIEW))},
            frozenset(json.loads(found.get(_SEEN, "[]"))),
            found.get(_OWED, ""),
            found.get(_DONE, ""),
            found.get(_ROOT, ""),
            again,
            pause,
        )

    def owe(self, clock: Callable[[], int] = time.time_ns) -> None:
        """Notes that tables were changed by a statement, so that the catalog is looked at. Raises LakeError."""
        self._noted.write({_STATE + _OWED: str(clock())})

    def rename(self, names: Mapping[NamedPlace, Collection[CatalogName]], root: str = "") -> None:
        """Notes the names that these places have now, and where the lake is if `root` says so. Raises LakeError."""
        notes = {f"{_STATE}{_VIEW if one.view else _NAME}{one.folder}": _text(found) for one, found in names.items()}
        if root:
            notes[_STATE + _ROOT] = root
        if notes:
            self._noted.write(notes)

    def settle(self, rules: CatalogRules, seen: Collection[str], owed: str) -> None:
        """Notes that the catalog has what it should have: nothing is owed until something changes. Raises
        LakeError."""
        self._settle(rules, seen, owed, "")

    def postpone(self, rules: CatalogRules, seen: Collection[str], owed: str, pause: float, now: float) -> None:
        """Notes that something failed, which is tried again later than the last time, or when something changes.
        Raises LakeError."""
        pause = min(2 * pause, _LONGEST_PAUSE) or _FIRST_PAUSE
        self._settle(rules, seen, owed, json.dumps([now + pause, pause]))

    def _settle(self, rules: CatalogRules, seen: Collection[str], owed: str, again: str) -> None:
        done = {_RULES: catalog_json(rules), _SEEN: json.dumps(sorted(seen)), _DONE: owed, _AGAIN: again}
        self._noted.write({_STATE + name: text for name, text in done.items()})

    @property
    def _noted(self) -> Noted:
        return Noted(self.lake, self.lake.catalog_path(self.destination, self.client_id))


def _place(key: str) -> NamedPlace:
    kind = _VIEW if key.startswith(_VIEW) else _NAME
    return NamedPlace(key.removeprefix(kind), kind == _VIEW)


def _names(text: str) -> frozenset[CatalogName]:
    return frozenset(CatalogName(*parts) for parts in json.loads(text))


def _text(names: Collection[CatalogName]) -> str:
    return json.dumps(sorted([one.catalog, one.database, one.table] for one in names)) if names else ""


def noted_rules(lake: Lake, destination: str, client_id: int) -> CatalogRules | None:
    """Returns the rules by which the tables were registered last, or None: also if the lake does not answer."""
    with suppress(LakeError):
        return CatalogNotes(lake, destination, client_id).read().rules
    return None
