"""Hosts by name and by address."""

from __future__ import annotations

import pytest

from cdc_core.source.same_host import same_host

NAMES = {"db": "10.0.0.1", "10.0.0.1": "10.0.0.1", "other": "10.0.0.2"}


def resolve(host: str) -> str:
    if host not in NAMES:
        raise OSError(f"{host}: not known")
    return NAMES[host]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("db", "10.0.0.1", True), ("db", "other", False), ("gone", "gone", True), ("gone", "db", False)],
)
def test_by_address(one: str, other: str, same: bool) -> None:
    """An unresolvable name equals only itself."""
    assert same_host(one, other, resolve) == same
