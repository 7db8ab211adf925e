"""The rules of a client's lake, by patterns of tables, with their JSON form."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache

from cdc_core.errors import ConfigError
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import Mask
from cdc_core.schema.table import TableSchema

_WILD = "*?["
_PLACE = "rules"


@dataclass(frozen=True, slots=True)
class Rules:
    """`tables` maps patterns, `shop.*` as in a shell, to rules; the first that fits counts. Names are compared without
    case: a server may keep them in lower case, and a rule that fits too many tables hides more, not less. Salts are
    filled where values are masked, and nowhere else."""

    tables: Mapping[str, TableRule] = field(default_factory=dict)
    _known: dict[str, tuple[str, TableRule | None]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.tables)

    @property
    def hides(self) -> bool:
        """Whether some lake may lack values or rows of a table."""
        return any(rule.hides_columns or rule.where for rule in self.tables.values())

    def of(self, table: str) -> TableRule | None:
        """The rule of `database.table`; None without one."""
        return self._found(table)[1]

    def names(self, table: str) -> bool:
        """Whether the rule of `database.table` names it in full, not by a pattern."""
        pattern, rule = self._found(table)
        return rule is not None and not any(letter in pattern for letter in _WILD)

    def idle(self, tables: Iterable[str]) -> list[str]:
        """The patterns, and names in full, that none of these tables has: a misspelled one hides nothing."""
        names = [table.lower() for table in tables]
        return [one for one in self.tables if not any(fnmatchcase(name, one.lower()) for name in names)]

    def view(self, schema: TableSchema) -> TableSchema:
        """The definition as the lake sees it. A table that is named in full must have all columns of its rule."""
        rule = self.of(schema.name)
        return rule.view(schema, whole=self.names(schema.name)) if rule else schema

    def _found(self, table: str) -> tuple[str, TableRule | None]:
        """The pattern and the rule of a table, which each claim asks for."""
        found = self._known.get(table)
        if found is None:
            fits = (one for one in self.tables.items() if fnmatchcase(table.lower(), one[0].lower()))
            found = self._known[table] = next(fits, ("", None))
        return found

    def null_dates(self, zero_dates: str) -> bool:
        """Whether a zero date may be NULL in the lake. `zero_dates` is the destination's setting."""
        return "null" in (zero_dates, *(rule.zero_dates for rule in self.tables.values()))

    def check(self) -> None:
        """Raises ConfigError for a rule that no table can have."""
        for pattern, rule in self.tables.items():
            rule.check(f"{_PLACE}, {pattern}")

    @property
    def fingerprint(self) -> str:
        """Another one for other rules; "" without any. Salts do not count: it is the same wherever rules are read."""
        return fingerprint_of(self.to_json()) if self.tables else ""

    def filled(self, read: Callable[[str], str | None]) -> Rules:
        """The same with the salts' bytes. `read` gives the value of an environment variable. Raises ConfigError for a
        salt that is missing."""

        def fill(mask: Mask) -> Mask:
            if mask.salt is None:
                return mask
            text = read(mask.salt.variable)
            if not text:
                raise ConfigError(
                    "a salt is missing: the environment variable is not set, or empty",
                    place=f"{_PLACE}, {mask.salt.variable}",
                    hint=f"Set {mask.salt.variable} where the service and Dagster run, to the same text; then start "
                    "them again.",
                )
            return replace(mask, salt=mask.salt.filled(text.encode()))

        return Rules({pattern: rule.filled(fill) for pattern, rule in self.tables.items()})

    def to_json(self) -> str:
        return json.dumps([[pattern, rule.to_dict()] for pattern, rule in self.tables.items()])

    @classmethod
    def from_json(cls, text: str) -> Rules:
        """Raises ConfigError for a text of another form, and for a rule that no table can have."""
        try:
            rules = cls({str(pattern): TableRule.from_dict(one) for pattern, one in json.loads(text or "[]")})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"the text is not a set of rules: {error}", place=_PLACE, hint="Set the rules again."
            ) from error
        rules.check()
        return rules


NO_RULES = Rules()


def other_salts(schemas: Iterable[TableSchema], read: Callable[[str], str | None]) -> list[str]:
    """The environment variables whose salt is another one here than where these definitions were made. `read` gives the
    value of a variable; one that has none here does not count."""
    masks = {column.mask for schema in schemas for column in schema.columns if column.mask}
    salts = {mask.salt for mask in masks if mask.salt and mask.salt.check}
    here = ((salt, read(salt.variable)) for salt in salts)
    return sorted(salt.variable for salt, text in here if text and salt.filled(text.encode()) != salt)


def fingerprint_of(text: str) -> str:
    """The fingerprint of the rules whose JSON form this is."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


@lru_cache
def salted(text: str) -> Rules:
    """Returns the rules of a text, with the salts of this process' environment. Raises ConfigError for a text that has
    no rules, and for a missing salt."""
    return Rules.from_json(text).filled(os.environ.get)
