"""The filter: expressions as in Canal, and care for the server's own schemas."""

from __future__ import annotations

import pytest

from cdc_core.errors import ConfigError
from cdc_core.stream.filter import check_foreign, make_filter


@pytest.mark.parametrize(
    ("regex", "black", "taken", "left"),
    [
        (
            r".*\..*",
            "",
            ["shop.orders", "a.b"],
            ["mysql.user", "sys.x", "information_schema.T", "performance_schema.t"],
        ),
        ("", "", ["shop.orders"], ["mysql.user"]),
        (r"shop\..*", "", ["shop.orders", "SHOP.Orders"], ["shop2.orders", "myshop.orders"]),
        (r"shop\.o", "", ["shop.o"], ["shop.orders"]),
        (r"shop\.orders, shop\.lines", "", ["shop.orders", "shop.lines"], ["shop.customers"]),
        (r"shop\.o|shop\.orders,a\.b", "", ["shop.orders", "shop.o", "a.b"], ["a.bc"]),
        (r"s_\d{1,2}\.t", "", ["s_1.t", "s_12.t"], ["s_123.t"]),
        (r".*\..*", r"mysql\.slave_.*,shop\.tmp_.*", ["shop.orders"], ["shop.tmp_1"]),
        (r"mysql\.user,shop\..*", "", ["mysql.user", "shop.a"], ["mysql.db", "sys.x"]),
        ("canal.test", "", ["canal.test", "canalxtest.test"][:1], ["canal.test2"]),
    ],
)
def test_tables_taken_and_left(regex: str, black: str, taken: list[str], left: list[str]) -> None:
    """Expressions match in full and in any case; black follows white; system schemas match only by name."""
    captured = make_filter(regex, black)
    assert [name for name in taken if not captured(*name.split("."))] == []
    assert [name for name in left if captured(*name.split("."))] == []


@pytest.mark.parametrize(("regex", "black"), [("shop.(", ""), (".*", "[a")])
def test_a_bad_expression_is_named(regex: str, black: str) -> None:
    """The error has the key that holds it."""
    with pytest.raises(ConfigError) as caught:
        make_filter(regex, black)
    assert (black or regex) in caught.value.message
    assert caught.value.place == f"canal.instance.filter.{'black.' if black else ''}regex"


@pytest.mark.parametrize(
    "regex",
    [
        r".*\..*",
        r"shop\..*,crm\.t_\d+",
        r"(shop|crm)\.(a|b|c)(_bak|_old)?_[0-9]{1,4}",
        r"a\.(?!log_).*",
        r"(.*_)?x\..*",
        ",".join(rf"shop\.table_{number}" for number in range(2000)),
    ],
)
def test_filters_that_programs_bring_along(regex: str) -> None:
    """What Canal's users write is taken."""
    check_foreign(regex, "the filter")


@pytest.mark.parametrize(
    "regex",
    [r"shop\.(a|a)*b", r"(a+)+b", ".*.*.*.*.*.*.*x", "(a?b?){20}c", "a?" * 30, "shop.t," * 20_000, r"(\w+_?)+x"],
)
def test_a_filter_that_would_hold_the_service_up(regex: str) -> None:
    """It is refused at once: while one name is matched, nothing else runs."""
    with pytest.raises(ConfigError, match=r"may search for too long|at most 65536"):
        check_foreign(regex, "the filter")
