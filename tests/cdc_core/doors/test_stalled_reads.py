"""Reads from a paused service, whose host still answers for it: only silence reveals the pause."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from cdc_core.client import changes
from cdc_core.errors import ServiceUnavailable

_SERVER = """
import time
import pyarrow as pa
import pyarrow.flight as flight

class Server(flight.FlightServerBase):
    def do_get(self, context, ticket):
        schema = pa.schema([("n", pa.int64())])
        def batches():
            for n in range(10_000):
                yield pa.record_batch([pa.array([n])], schema=schema)
                time.sleep(0.01)
        return flight.GeneratorStream(schema, batches())

server = Server("grpc://127.0.0.1:0")
print(server.port, flush=True)
server.serve()
"""


def test_a_read_ends_when_its_server_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The read ends with a retryable error, after minutes, which are shortened here."""
    short = {"grpc.keepalive_time_ms": 1000, "grpc.http2.ping_timeout_ms": 5000}
    assert short.keys() <= dict(changes._OPTIONS).keys()
    monkeypatch.setattr(changes, "_OPTIONS", [*(dict(changes._OPTIONS) | short).items()])
    server = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        with changes.FlightRows(f"grpc://127.0.0.1:{int(server.stdout.readline())}") as rows:
            split = rows.split(b"any")
            assert next(split).num_rows == 1
            server.send_signal(signal.SIGSTOP)
            with pytest.raises(ServiceUnavailable):
                for _ in split:
                    pass
    finally:
        server.kill()
        server.wait()
