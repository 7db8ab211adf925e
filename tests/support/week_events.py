"""What happens in a soak of a week, and when, drawn from a seed. Pure.

Parts whose memory is watched die in the first half alone, so that the second half sees one life of each; whatever they
depend on dies until the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

WATCHED = ("service", "spark", "code server", "daemon", "webserver")
OTHERS = ("mysql", "zookeeper", "run")
KILL = "kill "
LATEST = 0.46  # of the soak, for what is watched to die, where the events before took long
_EARLY = {f"{KILL}{part}": 1 for part in WATCHED}
_ALWAYS = {
    **{f"{KILL}{part}": 1 for part in OTHERS},
    "cut dump": 1,  # the connection that reads the binlog
    "rotate": 1,  # to the binlog's next file
    "ddl": 6,
    "rewind": 1,
    "restore": 1,  # of the lake and the cursor
    "undo": 1,
    "snapshot": 1,
    "copy": 1,
    "maintain": 1,
}
_FIRST, _EARLY_UNTIL, _LAST = 0.03, 0.42, 0.94  # of the soak
_APART = (0.002, 0.01)  # of the soak: 7 to 36 s of an hour
LEAST = 2400.0  # seconds of a soak, for this: a lake that is hit more often does nothing but start again
_AWAY = (0.0, 4.0)  # seconds, for a part that was killed
_RENAMES = 0.2  # of the statements


@dataclass(frozen=True, slots=True)
class Event:
    """`at`: seconds since the beginning. `away`: seconds until a killed part is started again."""

    at: float
    what: str
    away: float = 0.0

    @property
    def killed(self) -> str:
        """The part that it kills, "" for none."""
        return self.what.removeprefix(KILL) if self.what.startswith(KILL) else ""


def draw(seed: int, seconds: float) -> list[Event]:
    """Returns the events in order: decks of all kinds, each shuffled and dealt to its end, so that each kind comes as
    often as its weight says."""
    rng, at, found = Random(seed), _FIRST * seconds, list[Event]()
    early, late = _deck(rng, _ALWAYS | _EARLY), _deck(rng, _ALWAYS)
    while at < _LAST * seconds:
        what = next(early if at < _EARLY_UNTIL * seconds else late)
        found.append(Event(round(at, 1), what, round(rng.uniform(*_AWAY), 1)))
        at += rng.uniform(*_APART) * max(seconds, LEAST)
    return found


def _deck(rng: Random, weights: dict[str, int]) -> Iterator[str]:
    while True:
        cards = [what for what, times in weights.items() for _ in range(times)]
        rng.shuffle(cards)
        yield from cards


class PassingTables:
    """DDL without an end, on tables that do not grow: a few names, whose tables are made, altered, renamed, filled,
    emptied and dropped. Each statement is one that the tables as they are then can take. `UNDONE` keeps its name."""

    NAMES = ("passing_0", "passing_1", "passing_2", "passing_3")
    UNDONE = "passing_2"
    _COLUMNS = tuple(f"c{number}" for number in range(8))
    _MOST_COLUMNS, _MOST_ROWS = 4, 200

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._columns: dict[str, list[str]] = {}
        self._rows: dict[str, int] = {}

    @property
    def there(self) -> list[str]:
        """The tables that there are now."""
        return sorted(self._columns)

    def statements(self) -> list[str]:
        """Returns the next change of a definition, and rows after it if its table is still there."""
        name = self._rng.choice(self.NAMES)
        columns = self._columns.get(name)
        may_move = columns is not None and name != self.UNDONE and self._rows[name] < self._MOST_ROWS
        if columns is not None and may_move and self._rng.random() < _RENAMES:
            statement, name = self._moved(name, columns)
            return [statement, *self._fill(name)]
        change = self._change(name, columns)
        return [change, *(self._fill(name) if name in self._columns else [])]

    def _moved(self, name: str, columns: list[str]) -> tuple[str, str]:
        """The table gets another name, at once with a new column if it may, or swaps its name with another table.
        Returns the statement, and the table's new name."""
        to = self._rng.choice([one for one in self.NAMES if one not in (name, self.UNDONE)])
        if to in self._columns:
            for all_of in (self._columns, self._rows):
                all_of[name], all_of[to] = all_of[to], all_of[name]  # type: ignore[index]
            return f"RENAME TABLE {name} TO passing, {to} TO {name}, passing TO {to}", to
        self._columns[to], self._rows[to] = self._columns.pop(name), self._rows.pop(name)
        if len(columns) == self._MOST_COLUMNS:
            return f"RENAME TABLE {name} TO {to}", to
        columns.append(self._new(columns))
        return f"ALTER TABLE {name} ADD COLUMN {columns[-1]} INT, RENAME TO {to}", to

    def _change(self, name: str, columns: list[str] | None) -> str:
        if columns is None:
            self._columns[name], self._rows[name] = [], 0
            key = "" if name.endswith("0") else " PRIMARY KEY"
            return f"CREATE TABLE {name} (id INT NOT NULL{key}, what VARCHAR(20))"
        kinds = ["add"] * 3 * (len(columns) < self._MOST_COLUMNS) + ["leave", "rename"] * bool(columns)
        kind = self._rng.choice([*kinds, "widen", "truncate", "drop"])
        if self._rows[name] >= self._MOST_ROWS:
            kind = "truncate"
        return getattr(self, f"_{kind}")(name, columns)  # type: ignore[no-any-return]

    def _add(self, name: str, columns: list[str]) -> str:
        columns.append(self._new(columns))
        return f"ALTER TABLE {name} ADD COLUMN {columns[-1]} INT DEFAULT {self._rng.randrange(9)}"

    def _leave(self, name: str, columns: list[str]) -> str:
        return f"ALTER TABLE {name} DROP COLUMN {columns.pop(self._rng.randrange(len(columns)))}"

    def _rename(self, name: str, columns: list[str]) -> str:
        at = self._rng.randrange(len(columns))
        old, columns[at] = columns[at], self._new(columns)
        return f"ALTER TABLE {name} RENAME COLUMN {old} TO {columns[at]}"

    def _widen(self, name: str, _: list[str]) -> str:
        return f"ALTER TABLE {name} MODIFY what VARCHAR({self._rng.randint(20, 200)})"

    def _truncate(self, name: str, _: list[str]) -> str:
        self._rows[name] = 0
        return f"TRUNCATE TABLE {name}"

    def _drop(self, name: str, _: list[str]) -> str:
        del self._columns[name], self._rows[name]
        return f"DROP TABLE {name}"

    def _fill(self, name: str) -> list[str]:
        first, self._rows[name] = self._rows[name], self._rows[name] + 10
        rows = ", ".join(f"({number}, 'row {number}')" for number in range(first, first + 10))
        found = [f"INSERT INTO {name} (id, what) VALUES {rows}"]
        found += [f"UPDATE {name} SET {column} = id WHERE id % 3 = 0" for column in self._columns[name][:1]]
        return [*found, f"DELETE FROM {name} WHERE id = {self._rng.randrange(first, first + 10)}"]

    def _new(self, columns: list[str]) -> str:
        return self._rng.choice([name for name in self._COLUMNS if name not in columns])
