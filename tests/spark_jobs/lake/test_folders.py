"""spark_jobs.lake.folders: the folder of every name, and back."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.lake.folders import LONGEST, folder_of, name_of

PLAIN = string.ascii_letters + string.digits + "_$-"
# What MySQL and MariaDB allow: the Basic Multilingual Plane but NUL (manual, "Schema Object Names").
ALLOWED = st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"])


@given(st.text(ALLOWED, min_size=1, max_size=64))
@example("größe")
@example("@@mfrgg")
@example("a@0040b")
@example("..")
@example("_delta_log")
@example("_Sluice")
@example("漢" * 64)
@example("\uffff" * 64)
def test_every_name_has_a_folder_of_its_own(name: str) -> None:
    """It leads back to the name, is ASCII of at most 255 bytes, and means nothing to Delta or to the file system."""
    folder = folder_of(name)

    assert name_of(folder) == name
    assert folder.isascii()
    assert len(folder) <= LONGEST
    assert not set(folder) & set("/\\%#?:*|\"'`{}[]<>=&")
    assert folder.lower() not in (".", "..", "_delta_log", "_sluice")


@given(st.text(PLAIN, min_size=1, max_size=64).filter(lambda name: not name.startswith("_")))
@example("_orders")
@example("order lines")
def test_a_plain_name_is_its_folder(name: str) -> None:
    """Lakes of earlier versions stay where they are."""
    assert folder_of(name) == name


def test_a_name_that_no_server_allows_may_be_too_long() -> None:
    """64 characters beyond the Basic Multilingual Plane."""
    with pytest.raises(ValueError, match="too long for a folder"):
        folder_of("😀" * 64)
