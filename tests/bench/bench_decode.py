"""Binlog to Arrow on one core, from a real server's files, beside mysql-replication on the same one.

`decode_rows`: framing with checksums, annotating, walking, columns of every change; row images a CPU second.
`decode_net`: the same, but what is left per key; changed rows a CPU second.
`decode_wide_cells`: a table of thirty columns of mixed types; cells a CPU second.
`decode_json_docs`: documents of 1 KB a CPU second.

    python -m tests.bench.bench_decode [--scale 0.1]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from cdc_core.binlog.block import BlockSlice
from cdc_core.rows.net import plan_changes, plan_net, read
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.source.framing import Framer
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from tests.bench.bench_service import OPTIONS, RING, backlog, fill, report
from tests.support.binlog_stream import ROTATE, event, opening, packets

BLOCK_BYTES = 256 << 10
WIDE = {
    "BIGINT": "n * 1000003", "INT UNSIGNED": "n", "SMALLINT": "n % 30000", "TINYINT UNSIGNED": "n % 255",
    "DECIMAL(12,2)": "n / 100", "DOUBLE": "n / 7", "FLOAT": "n / 3", "DATETIME(3)": "'2024-05-06 07:08:09.123'",
    "DATE": "'2024-05-06'", "TIMESTAMP(6) NULL": "'2024-05-06 07:08:09.123456'", "TIME(3)": "'12:34:56.789'",
    "YEAR": "2024", "VARCHAR(40)": "CONCAT('name-', n)", "CHAR(10)": "'ten'", "ENUM('a','b','c')": "1 + n % 3",
}  # fmt: skip
JSON = "JSON_OBJECT('id', n, 'name', REPEAT('x', 100), 'tags', JSON_ARRAY('a', 'b', n, 2.5, NULL), 'text', {text})"


def stream_of(mysql: MySqlServer, begin: tuple[str, int]) -> bytes:
    """A journal from `begin` on, as the server would send it."""
    raw = (Path(mysql.log).parent / "data" / begin[0]).read_bytes()
    events, at = [], begin[1]
    while at < len(raw):
        size = int.from_bytes(raw[at + 9 : at + 13], "little")
        events.append(raw[at : at + size])
        at += size
    rotation = event(ROTATE, begin[1].to_bytes(8, "little") + begin[0].encode(), -1, flags=0x20)
    return packets([rotation, opening()[1], *events])


def ranges(stream: bytes, begin: tuple[str, int]) -> Iterator[tuple[list[BlockSlice], SchemaRegistry]]:
    """The stream, framed and annotated, in ranges of about a ring's size: what is read is let go."""
    framer, view, at = Framer(*begin, checksum=True), memoryview(stream), 0
    registry = SchemaRegistry()
    annotator = Annotator(registry, lambda schema, _: schema, lambda database, _: database == "bench")
    slices: list[BlockSlice] = []
    while at < len(view):
        space = framer.space()
        count = min(len(space), len(view) - at)
        space[:count] = view[at : at + count]
        framer.received(count)
        at += count
        for block in framer.blocks(flush=at == len(view)):
            annotator.annotate(block)
            slices.append(BlockSlice(block, 0, len(block.index)))
        if len(slices) * BLOCK_BYTES >= RING or at == len(view):
            yield slices, registry
            slices = []


def changes(stream: bytes, begin: tuple[str, int], table: str) -> int:
    """Rows of Arrow."""
    plans = (plan_changes(*part, table) for part in ranges(stream, begin))
    return sum(batch.num_rows for plan in plans for batch in read(plan))


def net(stream: bytes, begin: tuple[str, int], table: str) -> int:
    plans = (plan_net(*part, table) for part in ranges(stream, begin))
    return sum(batch.num_rows for plan in plans for batch in read(plan))


def best(work: Callable[[], int], times: int = 3) -> tuple[float, int]:
    """The least CPU seconds of a few runs, and the answer; the first, which loads kernels, is not counted."""
    seconds, answer = [], 0
    for _ in range(times + 1):
        started = time.process_time()
        answer = work()
        seconds.append(time.process_time() - started)
    return min(seconds[1:]), answer


def peer(mysql: MySqlServer, begin: tuple[str, int], images: int) -> float:
    """Row images a CPU second of mysql-replication, the same file to its end."""
    stream = BinLogStreamReader(
        connection_settings={"host": mysql.host, "port": mysql.port, "user": mysql.user, "passwd": mysql.password},
        server_id=9_001, log_file=begin[0], log_pos=begin[1], resume_stream=True, blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )  # fmt: skip
    seen, started = 0, time.process_time()
    for one in stream:
        seen += len(one.rows) * (2 if isinstance(one, UpdateRowsEvent) else 1)
    seconds = time.process_time() - started
    stream.close()
    assert seen == images
    return seen / seconds


def work(mysql: MySqlServer, scale: float) -> None:
    inserts = int(1_000_000 * scale)
    begin = fill(mysql, backlog(inserts))
    stream = stream_of(mysql, begin)
    config = {"inserts": inserts, "updates": inserts // 5, "deletes": inserts // 20, "mb": round(len(stream) / 1e6)}
    seconds, images = best(lambda: changes(stream, begin, "bench.t"))
    assert images == inserts + 2 * (inserts // 5) + inserts // 20
    others = peer(mysql, begin, images)
    report("decode_rows", images / seconds, "row images/s", config | {"limit": 50}, "mysql-replication", others)
    seconds, left = best(lambda: net(stream, begin, "bench.t"))
    rows = inserts + inserts // 5 + inserts // 20
    report("decode_net", rows / seconds, "changed rows/s", config | {"left": left})


def wide(mysql: MySqlServer, scale: float) -> None:
    rows = int(200_000 * scale)
    kinds = [*WIDE, *WIDE]
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
    values = ", ".join(WIDE[kind] for kind in kinds)
    numbers = f"SELECT a.d + 1000 * b.d AS n FROM seed.d b, seed.d a LIMIT {rows}"
    begin = fill(
        mysql, [f"CREATE TABLE bench.w ({columns})", f"INSERT INTO bench.w SELECT {values} FROM ({numbers}) s"]
    )
    stream = stream_of(mysql, begin)
    seconds, images = best(lambda: changes(stream, begin, "bench.w"))
    config = {"rows": rows, "columns": len(kinds), "mb": round(len(stream) / 1e6), "limit": 8_000_000}
    report("decode_wide_cells", images * len(kinds) / seconds, "cells/s", config)


def documents(mysql: MySqlServer, scale: float) -> None:
    rows = int(100_000 * scale)
    numbers = f"SELECT a.d + 1000 * b.d AS n FROM seed.d b, seed.d a LIMIT {rows}"
    document = JSON.format(text="REPEAT('text ', 160)")
    table = "CREATE TABLE bench.j (id BIGINT PRIMARY KEY, j JSON)"
    begin = fill(mysql, [table, f"INSERT INTO bench.j SELECT n, {document} FROM ({numbers}) s"])
    stream = stream_of(mysql, begin)
    seconds, images = best(lambda: changes(stream, begin, "bench.j"))
    report("decode_json_docs", images / seconds, "docs/s", {"mb": round(len(stream) / 1e6), "limit": 50_000})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--scale", type=float, default=1.0)
    scale = options.parse_args().scale
    with tempfile.TemporaryDirectory(prefix="bench-mysql-") as directory:
        mysql = MySqlServer("8.0.31", Path(directory), **OPTIONS).start()
        try:
            for measure in (work, wide, documents):
                measure(mysql, scale)
        finally:
            mysql.stop()


if __name__ == "__main__":
    main()
