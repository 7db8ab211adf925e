"""Volumes: what is written is there when the directory is opened again, up to the last whole transaction."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.errors import StoreDamaged, StoreError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk.stored import StoredSegment
from cdc_core.store.disk.volumes import Volumes
from cdc_core.store.mark import Mark
from cdc_core.store.segment import Segment, segment
from tests.support.doubles import block, ddl, table, transaction
from tests.support.volumes import OWNER, Writer, events_of, goes_on, opened, registry, sound


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    """Marks, transaction ends, statements and definitions too, over several volumes."""
    writer = Writer(tmp_path)
    for rows in ((1,), (2, 3), (), (4,), (1, 1, 1)):
        writer.put(*rows)
    writer.volumes.close()

    volumes, parts = opened(tmp_path)

    assert len(list(tmp_path.glob("*.volume"))) > 1
    assert events_of(parts) == events_of(writer.parts)
    for part, made in zip(parts, writer.parts, strict=True):
        assert isinstance(part, StoredSegment)
        loaded = part.loaded()
        assert (part.first, part.at(part.end)) == (made.first, made.at(made.end))
        assert [m.rows for m in (part.first, part.at(part.end))] == [m.rows for m in (made.first, made.at(made.end))]
        for name in ("rows", "commits", "statements"):
            assert np.array_equal(getattr(loaded, name), getattr(made, name))
    volumes.close()


def test_searches_answer_as_in_memory(tmp_path: Path) -> None:
    """Whether the extent or the index answers."""
    writer = Writer(tmp_path)
    made_block = block(transaction(2, 3) + ddl() + transaction(1, 4)[:-1])
    made_block.index["end"][2] = made_block.index["end"][3]  # came out of one event
    stored, made = writer.put_block(made_block), writer.parts[0]

    marks = range(made.events + 1)
    for low in marks:
        assert stored.at(low) == made.at(low)
        assert stored.whole(low) == made.whole(low)
        assert stored.first_commit_after(low) == made.first_commit_after(low)
        for high in marks[low:]:
            for ask in ("last_commit_within", "commits_within", "schemas", "statements_within"):
                assert getattr(stored, ask)(low, high) == getattr(made, ask)(low, high), ask
    for sequence in marks[1:]:
        assert stored.position(sequence) == made.position(sequence)
    for sequence in marks[1:-1]:
        assert events_of([stored.until(sequence)]) == events_of([made.until(sequence)])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_crash_at_any_byte_loses_the_tail_alone(data: st.DataObject) -> None:
    """Whatever of the last volume reached the disk, cut or with a flipped bit: a prefix of whole transactions is there,
    with all that earlier volumes have; and it can be written on."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        writer = Writer(path)
        states = [(0, writer.committed())]  # the volumes, and what may be found
        steps = st.lists(st.sampled_from(["put", "large", "open", "ddl", "drop"]), min_size=1, max_size=12)
        for step in ["put", *data.draw(steps)]:
            if step == "drop":
                writer.drop_uncommitted()
            else:
                sizes = {"put": (1,), "large": (1,) * 9, "open": (2,), "ddl": ()}[step]
                writer.put(*sizes, open_end=step == "open")
            states.append((len(list(path.glob("*.volume"))), writer.committed()))
        writer.volumes.close()
        last = max(path.glob("*.volume"))
        whole = last.read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        flipped = whole[:at] + bytes([whole[at] ^ 1 << data.draw(st.integers(0, 7))]) + whole[at + 1 :]
        last.write_bytes(data.draw(st.sampled_from([whole, whole[:at], flipped])))

        volumes, parts = opened(path)
        durable = [found for count, found in states if count < states[-1][0]]

        assert events_of(parts) in [found for _, found in states]
        assert len(events_of(parts)) >= len(durable[-1] if durable else [])
        goes_on(volumes, parts, path)


def test_a_dropped_transaction_is_replaced_by_what_comes_then(tmp_path: Path) -> None:
    """Its record stays in the file, and counts no more."""
    writer = Writer(tmp_path)
    writer.put(1)
    writer.put(2, open_end=True)
    writer.drop_uncommitted()
    writer.put(3)
    writer.volumes.close()

    assert events_of(opened(tmp_path)[1]) == events_of(writer.parts)


def test_an_open_transaction_after_a_whole_one_is_to_be_written_again(tmp_path: Path) -> None:
    """The segment that has both comes back in memory, without the open one."""
    writer = Writer(tmp_path)
    writer.put_block(block(transaction(1) + transaction(2)[:-1]))
    writer.volumes.close()

    volumes, parts = opened(tmp_path)

    assert isinstance(parts[0], Segment)
    assert events_of(parts) == writer.committed()
    goes_on(volumes, parts, tmp_path)


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """What was written in part is taken back, and the same segment is written when there is room."""
    room = [100]

    def write(file: int, parts: Sequence[bytes | memoryview]) -> int:
        data = b"".join(parts)[: room[0]]
        room[0] -= len(data)
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(file, data)

    volumes, made = Volumes(tmp_path, registry(), write=write), segment(block(transaction(1)), Mark())
    volumes.open(OWNER)
    with pytest.raises(OSError, match="No space"):
        volumes.append(made)
    assert [path.stat().st_size for path in tmp_path.glob("*.volume")] == [0]

    room[0] = 1 << 20
    volumes.append(made)
    volumes.close()
    assert events_of(opened(tmp_path)[1]) == events_of([made])


def test_a_flipped_bit_in_an_earlier_volume_is_found_when_it_is_read(tmp_path: Path) -> None:
    """The error names the file. The next opening ends before the damage."""
    writer = Writer(tmp_path)
    for rows in range(1, 9):
        writer.put(rows)
    writer.volumes.close()
    first = min(tmp_path.glob("*.volume"))
    whole = bytearray(first.read_bytes())
    whole[-100] ^= 1
    first.write_bytes(whole)

    volumes, parts = opened(tmp_path)
    assert events_of(parts) != events_of(writer.parts)
    bad = [part for part in parts if isinstance(part, StoredSegment) and not sound(part)]
    assert len(bad) == 1
    with pytest.raises(StoreDamaged) as error:
        bad[0].check()
    assert error.value.place.startswith(str(first))
    assert volumes.shelf.damaged is bad[0]
    volumes.close()

    volumes, parts = opened(tmp_path)
    assert events_of(parts) == events_of(writer.parts[: len(parts)])
    assert parts[-1].end == bad[0].first.sequence
    goes_on(volumes, parts, tmp_path)


def test_volumes_that_all_clients_passed_are_removed(tmp_path: Path) -> None:
    """What is mapped of them stays readable; the last volume stays."""
    writer = Writer(tmp_path)
    stored = [writer.put(rows) for rows in range(1, 9)]
    mapped, before = stored[0].block, events_of(stored[:1])

    writer.volumes.forget(stored[-1].end)

    assert len(list(tmp_path.glob("*.volume"))) == 1
    assert mapped.data.tobytes() == writer.parts[0].block.data.tobytes()
    assert before == events_of(writer.parts[:1])
    writer.volumes.close()
    _, parts = opened(tmp_path)
    assert parts[-1].end == stored[-1].end


@pytest.mark.parametrize("volume_bytes", [1, 1 << 20])
def test_what_comes_after_a_gap_is_there_again(tmp_path: Path, volume_bytes: int) -> None:
    """Some was acked and let go before it was written. All before it was acked, too: it leaves the disk, also from the
    middle of a volume."""
    registry_, first = registry(), segment(block(transaction(1)), Mark())
    volumes = Volumes(tmp_path, registry_, volume_bytes)
    volumes.open(OWNER)
    between = segment(block(transaction(2), start=1000), first.at(first.end))
    later = [segment(block(transaction(3), start=2000), between.at(between.end))]
    later.append(segment(block(transaction(4), start=3000), later[0].at(later[0].end)))
    for one in (first, *later):
        volumes.append(one)
    volumes.close()

    volumes, parts = opened(tmp_path)
    assert events_of(parts) == events_of(later)
    goes_on(volumes, parts, tmp_path)


def test_a_volume_that_cannot_be_removed_yet_is_removed_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left on disk alone it would be followed by a gap, and nothing after it would be used."""
    writer = Writer(tmp_path)
    stored = [writer.put(rows) for rows in range(1, 9)]

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _refused)
        with pytest.raises(OSError, match="denied"):
            writer.volumes.forget(stored[-1].end)
    writer.volumes.forget(stored[-1].end)
    writer.volumes.close()

    parts = opened(tmp_path)[1]
    assert parts[-1].end == stored[-1].end
    assert len(list(tmp_path.glob("*.volume"))) == 1


def test_a_gap_behind_volumes_that_cannot_be_removed_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The segment is written when they are gone."""
    volumes, first = Volumes(tmp_path, registry(), 1), segment(block(transaction(1)), Mark())
    volumes.open(OWNER)
    volumes.append(first)
    between = segment(block(transaction(2), start=1000), first.at(first.end))
    later = segment(block(transaction(3), start=2000), between.at(between.end))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _refused)
        for _ in range(2):
            with pytest.raises(OSError, match="denied"):
                volumes.append(later)
    volumes.append(later)
    volumes.close()
    assert events_of(opened(tmp_path)[1]) == events_of([later])


def test_a_store_of_another_source_is_removed(tmp_path: Path) -> None:
    """So is one that other filters annotated: what belongs to it is compared as a whole."""
    writer = Writer(tmp_path)
    writer.put(1)
    writer.volumes.close()

    others = SchemaRegistry()
    others.intern(table("shop.items"))
    volumes = Volumes(tmp_path, others)

    assert volumes.open({"source": "uuid-2"}) == []
    assert not list(tmp_path.glob("*.volume"))
    volumes.append(segment(block(transaction(1)), Mark()))
    volumes.close()
    known = SchemaRegistry()
    assert len(Volumes(tmp_path, known).open({"source": "uuid-2"})) == 1
    assert (len(known), known.get(0)) == (1, table("shop.items"))


def test_a_directory_has_one_user(tmp_path: Path) -> None:
    """The second gets an error with place and remedy."""
    writer = Writer(tmp_path)

    with pytest.raises(StoreError, match=r"another process .* sluice.store.dir"):
        Volumes(tmp_path, SchemaRegistry()).open(OWNER)

    writer.volumes.close()
    opened(tmp_path)[0].close()


def test_rows_of_a_definition_that_was_lost_are_not_used(tmp_path: Path) -> None:
    """A definition is written before the first record with it, so this is a damaged file."""
    writer = Writer(tmp_path)
    writer.put(1)
    writer.volumes.close()
    definitions = tmp_path / "definitions"
    definitions.write_bytes(definitions.read_bytes()[:-1])

    assert opened(tmp_path)[1] == []


def _refused(*_: object, **__: object) -> None:
    raise OSError(errno.EACCES, os.strerror(errno.EACCES))
