"""Sluice's own tables of a lake: none there is no error, and each that cannot be read says what to do in one way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from cdc_core.contract.claim import Claim
from cdc_core.errors import LakeError
from cdc_core.position import EntryPosition
from spark_jobs.lake.corrections import Correction, Corrections
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.noted import Noted
from spark_jobs.lake.tables import Lake
from spark_jobs.lake.writer import Writer, check_writer

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _write_all(lake: Lake) -> None:
    places = EntryPosition("bin.000001", 4), EntryPosition("bin.000001", 900)
    Ledger(lake, "shop", 1).note(Claim("shop", 1, 7, *places, (), 2, 3, 4, (), 1, "me", 0.0), {}, "run", 0.0)
    Corrections(lake, "shop", 1).asked(Correction("undo", 0, 1, 2), NOW)
    Noted(lake, lake.parking_path("shop", 1)).write({"sluice.parked.shop.orders": "{}"})
    check_writer(lake, "shop", Writer("a" * 32, 1), "sluice reset shop")


READS: dict[str, tuple[Callable[[Lake], str], Callable[[Lake], Any]]] = {
    "the ledger": (lambda lake: Ledger(lake, "shop", 1).path, lambda lake: Ledger(lake, "shop", 1).stretches()),
    "the corrections": (
        lambda lake: Corrections(lake, "shop", 1).path,
        lambda lake: Corrections(lake, "shop", 1).tables(),
    ),
    "the table notes": (
        lambda lake: lake.parking_path("shop", 1),
        lambda lake: Noted(lake, lake.parking_path("shop", 1)).read("sluice.parked."),
    ),
    "the note of the lake's writer": (
        lambda lake: lake.writer_path("shop"),
        lambda lake: check_writer(lake, "shop", Writer("a" * 32, 1), "sluice reset shop"),
    ),
}


@pytest.mark.parametrize("what", READS)
def test_a_damaged_one_is_to_be_restored(what: str, tmp_path: Path) -> None:
    """The error has its name and its folder."""
    lake, (path, read) = Lake(tmp_path), READS[what]
    assert not read(lake)
    _write_all(lake)
    for one in Path(path(lake), "_delta_log").glob("*.json"):
        one.write_text("damaged")
    with pytest.raises(LakeError) as caught:
        read(lake)
    assert caught.value.message.startswith(f"{what} cannot be read: ")
    assert caught.value.place == path(lake)
    assert caught.value.hint.startswith("Restore this folder from a copy: ")


_REFUSED = {
    PermissionError(13, "Permission denied"): "Make the lake readable. ",
    OSError("Generic S3 error: Error performing GET: 503 Service Unavailable"): "Make the lake readable. ",
    FileNotFoundError("Object at location _delta_log/00.json not found: No such file"): "Restore this folder ",
}


@pytest.mark.parametrize("error", _REFUSED, ids=repr)
@pytest.mark.parametrize("what", READS)
def test_one_that_nobody_may_read_is_to_be_made_readable(
    what: str, error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is wrong: no copy is needed, unless a file of it is gone."""
    lake, (_, read) = Lake(tmp_path), READS[what]
    _write_all(lake)

    def refuse(*_: Any, **__: Any) -> DeltaTable:
        raise error

    monkeypatch.setattr(Lake, "open", refuse)
    with pytest.raises(LakeError, match=f"^{what} cannot be read: ") as caught:
        read(lake)
    assert caught.value.hint.startswith(_REFUSED[error])
