"""cdc_core.schema.names: names in full, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.schema.names import full_name, split_name

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=64)


@given(NAMES | st.sampled_from(["a.b", "`", "`a`.b", "."]), NAMES)
def test_a_full_name_has_one_database_and_one_table(database: str, table: str) -> None:
    """Dots and backticks included."""
    assert split_name(full_name(database, table)) == (database, table)


def test_a_plain_name_is_what_it_was() -> None:
    """Quotes come with a dot in the database alone."""
    assert full_name("shop", "orders.old") == "shop.orders.old"
    assert full_name("my.shop", "orders") == "`my.shop`.orders"


@pytest.mark.parametrize("name", ["orders", ".orders", "shop.", ""])
def test_a_name_without_both_is_refused(name: str) -> None:
    """It says how to write it."""
    with pytest.raises(ValueError, match=r"database\.table"):
        split_name(name)
