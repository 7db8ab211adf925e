"""Spark is warmed while what comes after it starts."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cdc_core.errors import LakeError
from orchestration.commands import up
from orchestration.stack.keeping import Keeping
from orchestration.stack.ports import free_port
from orchestration.stack.progress import Progress
from orchestration.stack.warming import Warming, holds_claims
from orchestration.warmth import VARIABLE


class Lines(Progress):
    """A progress that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self._file = io.StringIO()
        self.console = Console(file=self._file, width=200)

    @property
    def told(self) -> str:
        return self._file.getvalue()


class Job:
    """A warm-up that does `work`; it ends when it has been asked so often."""

    def __init__(self, work: Callable[[], None] | None = None, asks: int = 1) -> None:
        self.places: list[tuple[str, Path]] = []
        self.begun, self.over = threading.Event(), threading.Event()
        self._work = work
        self._asks = asks

    def __call__(self, remote: str, folder: Path) -> Job:
        self.places.append((remote, folder))
        return self

    def run(self) -> None:
        self.begun.set()
        if self._work is not None:
            self._work()
            return
        assert self.over.wait(60)
        raise LakeError("the statement was interrupted", hint="None.")

    def end(self) -> None:
        self._asks -= 1
        if not self._asks:
            self.over.set()


def fails(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_its_end_is_shown(tmp_path: Path) -> None:
    """It gets the server and its own folder; a line says when Spark is warm."""
    job, progress = Job(lambda: None), Lines()
    warming = Warming("sc://here", tmp_path, progress, lambda: False, job)
    warming.start()
    assert warming.join(60)
    assert job.places == [("sc://here", tmp_path)]
    assert "✓ Spark is warm" in progress.told


@pytest.mark.parametrize("error", [LakeError("no room [left]", hint="Make room."), RuntimeError("a bug [here]")])
def test_a_failure_is_a_line_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    """The error of Spark, or any other, is shown with what follows of it. Nobody is stopped by it."""
    progress = Lines()
    warming = Warming("sc://here", tmp_path, progress, lambda: False, Job(fails(error)))
    warming.start()
    assert warming.join(60)
    warming.stop()
    assert "! Spark is not warm, so the first batch takes longer" in progress.told
    assert (error.message if isinstance(error, LakeError) else "RuntimeError: a bug [here]") in progress.told


def test_a_warm_up_that_cannot_begin_is_a_failure_like_others(tmp_path: Path) -> None:
    """As where a package is missing."""

    def make(_: str, __: Path) -> Job:
        raise ImportError("no such package")

    progress = Lines()
    warming = Warming("sc://here", tmp_path, progress, lambda: False, make)
    warming.start()
    assert warming.join(60)
    assert "ImportError: no such package" in progress.told


def test_it_ends_with_the_stack_in_silence(tmp_path: Path) -> None:
    """What runs is asked to end until it does, because a statement may have begun just then; its error is no news."""
    job, progress = Job(asks=3), Lines()
    warming = Warming("sc://here", tmp_path, progress, lambda: False, job)
    warming.start()
    assert job.begun.wait(60)
    warming.stop()
    assert warming.join(60)
    assert progress.told == ""


def test_it_ends_when_a_batch_has_come(tmp_path: Path) -> None:
    """The batch needs Spark more. That is said, and is no failure. So long there is the mark for which runs wait."""
    job, progress, came = Job(), Lines(), threading.Event()
    warming = Warming("sc://here", tmp_path / "warming", progress, came.is_set, job)
    warming.start()
    assert job.begun.wait(60)
    assert not job.over.is_set()
    mark = Path(warming.environment[VARIABLE])
    assert mark.exists()
    came.set()
    assert warming.join(60)
    assert not mark.exists()
    assert progress.told == "a batch has come: the warm-up of Spark ends\n"


def test_one_that_was_not_begun_is_stopped_and_its_folder_removed(tmp_path: Path) -> None:
    """Where Spark did not start, or a warm-up was killed: a later start removes what it left, also without another."""
    folder = tmp_path / "warming"
    (folder / "left").mkdir(parents=True)
    warming = Warming("sc://here", folder, Lines(), lambda: False)
    warming.stop()
    warming.clean()
    assert list(tmp_path.iterdir()) == []
    warming.clean()


def test_a_spark_of_others_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_REMOTE names it; no statement is sent there."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere:15002")
    monkeypatch.setattr(up, "Warming", fails(AssertionError("warmed")))
    with ExitStack() as parts:
        keeping = Keeping(parts, Lines())
        assert up._start_spark(parts, keeping, tmp_path, Lines(), "/lake", "") == ("sc://elsewhere:15002", {})


@contextmanager
def service(status: int, answer: Any) -> Iterator[tuple[str, list[str | None]]]:
    """Its URL, and the headers by which callers said who they are."""
    asked: list[str | None] = []

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(status if self.path == "/v1/destinations" else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_batch_is_seen_at_the_service() -> None:
    """At any client of any destination. Whoever does not say it has none."""
    free: dict[str, Any] = {"clients": [{"claims": []}]}
    cases = [
        (200, [free, {"clients": [{"claims": []}, {"claims": [{"batch_id": 1}]}]}], True),
        (200, [free, {"clients": []}], False),
        (200, {"other": "form"}, False),
        (401, [free], False),
    ]
    for status, answer, expected in cases:
        with service(status, answer) as (url, asked):
            assert holds_claims(url, "secret") is expected
            assert asked == ["Bearer secret"]
    assert not holds_claims(f"http://127.0.0.1:{free_port()}")
