"""What the decoder makes of a damaged stream, as text: errors with their place, or the rows. Anything else is raised.

`python -m tests.support.fuzzing SEED COUNT` prints it for so many streams, from uncompiled kernels that refuse any
index outside of their arrays.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa

if __name__ == "__main__":
    pass

from cdc_core.errors import SluiceError
from cdc_core.rows.chunks import gather
from cdc_core.rows.images import walk
from cdc_core.rows.net import RowsPlan, plan_changes, plan_net, read
from tests.fixtures.captured import NAMES, Captured, captured
from tests.support.damage import damaged
from tests.support.decoding import Decoded, decoded


def outcome(stream: bytes, log: Captured, block_bytes: int = 1 << 14) -> list[str]:
    """A line for each table and mode, or for the error that ended the stream."""
    try:
        found = decoded(stream, log.resolve, checksum=log.checksum, journal=log.journal, block_bytes=block_bytes)
    except SluiceError as error:
        return [told(error)]
    return list(lines(found))


def lines(found: Decoded) -> Iterator[str]:
    for slices in found.segments():
        for table in found.tables(slices):
            for plan_of in (plan_net, plan_changes):
                try:
                    plan = plan_of(slices, found.registry, table, splits=2)
                    yield f"{table} {plan.mode} {plan.to_dict()} {_digest(plan)}"
                    _check_places(plan, found)
                except SluiceError as error:
                    yield told(error)


def _digest(plan: RowsPlan) -> str:
    """A digest of all values handed out."""
    digest = hashlib.sha256()
    for split in range(len(plan.splits)):
        for batch in read(plan, split):
            batch.validate(full=True)
            digest.update(repr([_values(column) for column in batch.columns]).encode())
    return digest.hexdigest()[:16]


def _values(column: pa.Array) -> list[Any]:
    """The values; days and moments as numbers, since Python has no year 0."""
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    return list(column.to_pylist())


def _check_places(plan: RowsPlan, found: Decoded) -> None:
    """Each value starts within its event."""
    for chunk in gather(plan.slices, plan.schemas):
        images = walk(chunk, found.registry.row_layout(min(plan.schemas)))
        low = chunk.index["offset"][images.event].astype(int)
        high = low + chunk.index["length"][images.event]
        assert ((images.starts < 0) | ((images.starts > low) & (images.starts <= high))).all()


def told(error: SluiceError) -> str:
    """The error as text. It must have a place and a hint."""
    assert error.place, error
    assert error.hint, error
    return f"{type(error).__name__}: {error}"


def streams(seed: int, count: int) -> Iterator[tuple[Captured, bytes]]:
    """So many damaged streams, the same for each seed."""
    rng = Random(seed)
    for _ in range(count):
        log = captured(rng.choice(NAMES))
        yield log, damaged(rng, log)


def main(seed: int, count: int) -> None:
    for log, stream in streams(seed, count):
        print(outcome(stream, log))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
