"""Conditions over a row, in the language of rules: which rows of a table a lake has.

Only the service's decoder and a snapshot's evaluate them, on Arrow columns. MySQL is not asked. So numbers are exact,
texts are compared by their characters, and NULL is as in SQL. What is not listed in docs/rules.md is refused when the
rules are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from cdc_core.errors import ConfigError, SchemaError
from cdc_core.rules.evaluation import RowValues, truth
from cdc_core.rules.functions import why_not
from cdc_core.rules.language import columns_of, parsed

_HINT = "Write a condition as docs/rules.md describes it: country = 'DE' AND deleted = 0."


@dataclass(frozen=True, slots=True)
class Condition:
    """`columns` are the names that it has, in lower case."""

    text: str
    columns: tuple[str, ...]
    root: exp.Expr = field(repr=False, compare=False)

    def holds(self, values: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """For each row whether it is true. `values` are by the columns' names in lower case. Raises SchemaError for
        types that it cannot compare, and for numbers of too many digits."""
        try:
            return pc.fill_null(truth(self.root, RowValues(values, len(next(iter(values.values()))))), False)
        except pa.ArrowException as error:
            why = why_not(error)
        raise SchemaError(f"the condition {self.text!r} cannot be evaluated: {why}", hint=_HINT)


@lru_cache
def condition(text: str) -> Condition:
    """The condition of a text. Raises ConfigError for what is not in the language, with the place in the text."""
    root = parsed(text, of_values=False, hint=_HINT)
    names = columns_of(root)
    if not names:
        raise ConfigError(f"{text[:200]!r} is not a condition: it names no column", hint=_HINT)
    return Condition(text, names, root)
