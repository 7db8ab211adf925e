"""What may befall the directory: a kill at any line, a disk without room, torn pages, lost files, other processes.

The work is done by a process of its own, which is forked. It reports what was stored, so that what is found later can
be held against it.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_core.errors import StoreDamaged, StoreError
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.store.disk import volumes as disk
from cdc_core.store.disk.volumes import Volumes
from tests.support.marks import mostly_full
from tests.support.volumes import OWNER, SMALL, Writer, committed, events_of, goes_on, opened, sound

STEPS = ["put", "large", "open", "put", "drop", "put", "large", "put", "forget", "reopen", "put", "ddl", "large", "put"]
Tell = Callable[[int], object]
SIZES = {"put": (1,), "large": (1,) * 9, "open": (2,), "ddl": ()}
ROOM = str(Path(disk.__file__).parent)


def forked(work: Callable[[Tell], None]) -> tuple[list[int], int]:
    """Does the work in a process of its own. Returns the numbers that it reported, and how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(read)
            work(lambda number: os.write(write, number.to_bytes(8)))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    return [int.from_bytes(told[at : at + 8]) for at in range(0, len(told), 8)], os.waitpid(child, 0)[1]


def history(path: Path, tell: Tell = int) -> list[list[tuple[int, bytes]]]:
    """Writes a history of records, and reports after each step how many there were. What was committed after each."""
    writer, states = Writer(path), []
    for step in STEPS:
        if step == "drop":
            writer.drop_uncommitted()
        elif step == "forget":
            writer.volumes.forget(writer.parts[1].end)
        elif step == "reopen":
            writer.volumes.close()
            writer.volumes = opened(path)[0]
        else:
            writer.put(*SIZES[step], open_end=step == "open")
        states.append(writer.committed())
        tell(len(states))
    writer.volumes.close()
    return states


def dies(at_line: int, write_part: int) -> None:
    """From now on the process counts the lines that it runs in the store on disk, and is killed at that one; or, where
    that is a write, when so many bytes of it are written."""
    left, writev = [at_line], os.writev

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return look

    def torn(file: int, parts: Sequence[bytes | memoryview]) -> int:
        if left[0] < 20:
            os.write(file, b"".join(parts)[:write_part])
            os.kill(os.getpid(), signal.SIGKILL)
        return writev(file, parts)

    Volumes.__init__.__defaults__ = (*(Volumes.__init__.__defaults__ or ())[:-1], torn)
    sys.settrace(look)


def lines_of_history() -> int:
    """How many lines of the store on disk it runs."""
    seen = [0]

    def look(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        seen[0] += event == "line"
        return look

    before = sys.gettrace()
    with TemporaryDirectory() as directory:
        sys.settrace(look)
        try:
            history(Path(directory) / "a")
        finally:
            sys.settrace(before)
    return seen[0]


@pytest.mark.parametrize("kills", mostly_full([60, 500], lambda kills: kills == 60, days=2))
def test_a_kill_at_any_line_loses_nothing_that_was_stored(tmp_path: Path, kills: int) -> None:
    """What is found is whole transactions in order, has all that was reported as stored, and can be written on."""
    states, lines = history(tmp_path / "model"), lines_of_history()
    for number in range(kills):
        path = tmp_path / str(number)
        line, part = 1 + lines * number // kills, 40 * number % 700

        def work(tell: Tell, path: Path = path, line: int = line, part: int = part) -> None:
            dies(line, part)
            history(path, tell)

        told, end = forked(work)
        assert os.WTERMSIG(end) == signal.SIGKILL, (line, lines)
        volumes, parts = opened(path)
        found = events_of(parts)
        stored = [[], *states][len(told) :][:2]  # before the step that was under way, and after it
        begin = states[-1].index(found[0]) if found else 0  # first volumes may be forgotten
        assert found in [one[begin:] for one in stored], (line, lines)
        assert not begin or "forget" in STEPS[: len(told) + 1]
        if found:  # else the definitions may not be there, and this writes none
            goes_on(volumes, parts, path)


def test_a_disk_without_room_takes_the_rest_later(tmp_path: Path) -> None:
    """The kernel refuses bytes beyond a limit: in the middle of a record, of the heads, of a definition. Nothing of it
    is left, and the same segment is taken when there is room."""

    def work(tell: Tell) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        writer, limit = Writer(tmp_path / "a"), resource.getrlimit(resource.RLIMIT_FSIZE)
        for room in range(0, 2400, 60):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, limit[1]))
            end = writer.end
            try:
                writer.put(1, 1)
            except OSError:
                tell(room)
                assert writer.end == end
                resource.setrlimit(resource.RLIMIT_FSIZE, limit)
                writer.put(1, 1)
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        writer.volumes.close()
        assert events_of(opened(tmp_path / "a")[1]) == events_of(writer.parts)
        assert len(events_of(writer.parts)) == 40 * 5

    told, end = forked(work)
    assert end == 0
    assert len(told) > 10


def test_a_directory_whose_user_was_killed_is_free(tmp_path: Path) -> None:
    """While that one lives, the second is refused."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        Writer(tmp_path).put(1)
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)
    with pytest.raises(StoreError, match="another process"):
        opened(tmp_path)

    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    volumes, parts = opened(tmp_path)
    assert len(events_of(parts)) == 4
    goes_on(volumes, parts, tmp_path)
    for end in (read, write):
        os.close(end)


HARMS = ["page", "cut", "heads cut", "heads flipped", "heads gone", "gone", "empty", "damaged is junk", "label is junk"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_harmed_whole_transactions_are_left(data: st.DataObject) -> None:
    """One volume, heads or small file: torn, cut or gone. What is found and sound are transactions without a gap: the
    first ones, or those after a first volume that lost its beginning, as if it had been forgotten. Heads alone cost
    nothing. It can be written on."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "a"
        writer = Writer(path)
        for _ in range(10):
            writer.put(*[1] * data.draw(st.integers(1, 5)))
        writer.volumes.close()
        expected, harm = events_of(writer.parts), data.draw(st.sampled_from(HARMS))
        at_first = befall(path, harm, data)

        volumes, parts = opened(path)
        volumes, parts = healed(path, volumes, parts)
        found = events_of(parts)
        begin = expected.index(found[0]) if found else 0
        assert not begin or at_first
        assert found in [[], *(committed(writer.parts[: n + 1])[begin:] for n in range(len(writer.parts)))]
        if harm.startswith("heads"):
            assert found == expected
        if found:  # else the definitions may be gone, and this writes none
            goes_on(volumes, parts, path)


def befall(path: Path, harm: str, data: st.DataObject) -> bool:
    """Whether it is the first volume that is harmed."""
    if harm.endswith("junk"):
        (path / ("damaged" if harm.startswith("damaged") else "store.json")).write_bytes(b"\xff\0junk")
        return False
    kind = "heads" if harm.startswith("heads") else "volume"
    victims = sorted(path.glob(f"*.{kind}"))
    victim = data.draw(st.sampled_from(victims))
    whole = victim.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    if harm.endswith("gone"):
        victim.unlink()
    elif harm == "page":
        victim.write_bytes(whole[:at] + bytes(min(512, len(whole) - at)) + whole[at + 512 :])
    elif harm.endswith("flipped"):
        victim.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    else:
        victim.write_bytes(b"" if harm == "empty" else whole[:at])
    return kind == "volume" and victim == victims[0]


def healed(path: Path, volumes: Volumes, parts: list[Any]) -> tuple[Volumes, list[Any]]:
    """Opened again, as often as damage is found: each time it ends before it."""
    while not all(sound(part) for part in parts if hasattr(part, "check")):
        volumes.close()
        volumes, parts = opened(path)
    return volumes, parts


def test_files_that_vanish_are_damage(tmp_path: Path) -> None:
    """Somebody empties the directory under a service: the next read says so, and the place can be opened again."""
    writer = Writer(tmp_path)
    stored = [writer.put(1) for _ in range(8)]
    for file in [*tmp_path.glob("*.volume"), *tmp_path.glob("*.heads")]:
        file.unlink()

    with pytest.raises(StoreDamaged):
        stored[0].check()
    assert writer.volumes.shelf.damaged is stored[0]
    writer.volumes.close()
    assert opened(tmp_path)[1] == []


def test_damage_is_noted_without_room_for_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next opening ends before it all the same."""
    writer = Writer(tmp_path)
    for rows in range(1, 9):
        writer.put(rows)
    writer.volumes.close()
    second = sorted(tmp_path.glob("*.volume"))[1]
    whole = bytearray(second.read_bytes())
    whole[-100] ^= 1
    second.write_bytes(whole)

    def full(path: Path, _: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    volumes, parts = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "replace_file", full)
        assert not all(sound(part) for part in parts)  # type: ignore[arg-type]
    volumes.close()
    volumes, parts = opened(tmp_path)
    assert parts
    assert all(sound(part) for part in parts)  # type: ignore[arg-type]
    goes_on(volumes, parts, tmp_path)


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    """What is no volume of ours stays, also when another source's volumes are removed."""
    writer = Writer(tmp_path)
    writer.put(1)
    writer.volumes.close()
    (tmp_path / "notes.volume").write_text("mine")

    volumes = Volumes(tmp_path, SchemaRegistry(), SMALL)
    assert len(volumes.open(OWNER)) == 1
    assert volumes.open({**OWNER, "source": "uuid-2"}) == []
    assert (tmp_path / "notes.volume").read_text() == "mine"
    volumes.close()
