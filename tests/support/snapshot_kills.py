"""Where a run that loads tables may die."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest import mock

from spark_jobs.load import cutover, groups, reader, small, small_reader, switch
from spark_jobs.load.cutover import Cutover
from spark_jobs.load.registration import Registrations
from spark_jobs.load.staging import Staging

PLACES: tuple[tuple[Any, str], ...] = (
    (Staging, "commit"),
    (groups, "_planned"),
    (reader, "settled"),
    (Cutover, "_check_log"),
    (switch, "_folded"),
    (switch, "laid_over"),
    (switch, "adopt"),
    (switch, "replace"),
    (cutover, "lift_stop"),
    (Staging, "remove"),
)
OF_SMALL: tuple[tuple[Any, str], ...] = (
    (small, "settled"),
    (small, "between"),
    (Registrations, "note"),
    (small_reader, "read_rows"),
    (Cutover, "_end"),
    (cutover, "flush"),
)


class Killed(Exception):
    """A run ends here, as if its process had died."""


@contextmanager
def harmed(rng: Random, attempt: int, places: Sequence[tuple[Any, str]]) -> Iterator[None]:
    """The run may die at one of the places within the block; not for ever."""
    with ExitStack() as stack:
        if attempt < 9 and rng.random() < 0.5:
            kind, name = rng.choice(places)
            after, times = rng.random() < 0.5, rng.choice((0, 0, 1, 3))
            stack.enter_context(killed(kind, name, after=after, times=times))
        yield


@contextmanager
def killed(kind: Any, name: str, *, after: bool, times: int = 0) -> Iterator[None]:
    """The run dies before or after a call, when it was called so many times before."""
    call: Callable[..., Any] = getattr(kind, name)
    left = times

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0 and not after:
            raise Killed(name)
        found = call(*args, **kwargs)
        if left < 0:
            raise Killed(name)
        return found

    with mock.patch.object(kind, name, called):
        yield
