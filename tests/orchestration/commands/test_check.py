"""`sluice check`: what it finds of the service without a Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cdc_core.errors import SessionError
from cdc_core.rules.rules import NO_RULES, Rules
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.table import Column, TableSchema
from orchestration.commands import check


class _Service:
    """A service with one table, and an access to it and to an empty lake."""

    destination = "shop"

    def __init__(self, rules: Rules | None) -> None:
        self._rules = rules

    @property
    def lake(self) -> Any:
        return self

    def path(self, *names: str) -> str:
        return "/".join(names)

    def state(self, _path: str, _app: str) -> None:
        return None

    @contextmanager
    def connect(self) -> Iterator[Any]:
        yield self

    def rules(self) -> Rules:
        if self._rules is None:
            raise SessionError("not subscribed", hint="")
        return self._rules

    def tables(self) -> list[TableSchema]:
        return [TableSchema("shop", "customers", (Column("id", 3, 0), Column("a", 3, 0)))]


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (None, []),
        (NO_RULES, []),
        (Rules({"shop.Customers": TableRule(exclude=("a",))}), []),
        (Rules({"shop.custmers": TableRule(exclude=("a",)), "shop.*": TableRule()}), [("shop.custmers",)]),
    ],
)
def test_a_misspelled_rule_is_named(rules: Rules | None, found: list[tuple[str, ...]]) -> None:
    """It hides nothing. A client that is not subscribed has none."""
    at: Any = _Service(rules)
    assert [one.where for one in check._rules(at)] == found
