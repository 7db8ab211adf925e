"""Record batches for delta-rs, read before it asks for them.

delta-rs reads a stream on the threads that do all its other work. A stream that Python makes waits there for Python's
lock. Some calls, such as a change of properties, hold this lock while they wait for that work: with two writers on two
cores, or one on one, both then wait for ever. A stream of `spooled` needs no Python, nor does a table in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

MOST_BYTES = 32 << 20  # of Arrow that are held in memory; more go through a temporary file


@contextmanager
def spooled(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], most: int = MOST_BYTES
) -> Iterator[pa.Table | pa.RecordBatchReader]:
    """The batches, for the block. Raises what they raise, OSError for a full disk."""
    held, size, coming = list[pa.RecordBatch](), 0, iter(batches)
    for batch in coming:
        held.append(batch)
        size += batch.nbytes
        if size > most:
            break
    else:
        yield pa.Table.from_batches(held, schema)
        return
    with tempfile.NamedTemporaryFile(prefix="sluice-", suffix=".arrow") as file:
        with pa.ipc.new_stream(file.name, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as written:
            while held:
                written.write_batch(held.pop(0))
            for batch in coming:
                written.write_batch(batch)
        with pa.OSFile(file.name) as source, pa.ipc.open_stream(source) as reader:
            yield reader
