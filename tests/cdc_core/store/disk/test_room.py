"""How much the store on disk takes with `auto`."""

from __future__ import annotations

from pathlib import Path

from cdc_core.store.disk.room import MOST_BYTES, free_bytes, room


def test_a_fifth_of_what_is_free(tmp_path: Path) -> None:
    """Up to 8 GiB. What the directory holds counts as free, so that a restart has the same room."""
    place = tmp_path / "store" / "shop"
    assert room(place, lambda _: 5_000) == 1_000
    assert room(place, lambda _: 1 << 50) == MOST_BYTES == 8 << 30
    place.mkdir(parents=True)
    (place / "00000001.volume").write_bytes(bytes(2_000))
    assert room(place, lambda _: 3_000) == 1_000


def test_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    """It is its disk that counts."""
    assert free_bytes(tmp_path / "a" / "b") > 0
