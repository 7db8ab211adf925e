"""How much the store on disk takes with `auto`."""

from __future__ import annotations

from pathlib import Path

from cdc_core.store.disk.room import MOST_BYTES, free_bytes, room, volume_bytes
from cdc_core.store.disk.volumes import VOLUME_BYTES


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


def test_stores_next_to_each_other_share_it(tmp_path: Path) -> None:
    """Two hundred of them take as much as one, however large the disk. Other directories and files do not count."""
    for number in range(200):
        (tmp_path / f"shop{number}").mkdir()
        (tmp_path / f"shop{number}" / "store.json").write_text("{}")
    (tmp_path / "other").mkdir()
    (tmp_path / "cursors.json").write_text("{}")

    assert room(tmp_path / "shop7", lambda _: 1_000_000) == 1_000
    assert room(tmp_path / "new", lambda _: 1_005_000) == 1_000
    assert 200 * room(tmp_path / "shop7", lambda _: 1 << 40) <= (1 << 40) / 5


def test_a_small_room_has_small_files(tmp_path: Path) -> None:
    """They are removed as a whole, so what is on disk exceeds the room by one of them."""
    assert volume_bytes(8 << 30) == VOLUME_BYTES
    assert volume_bytes(64 << 20) == 8 << 20
    assert volume_bytes(0) == 4 << 20
