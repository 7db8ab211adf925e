"""Finds what a Python worker of Spark has and reaches. This module travels to it by value: it imports the standard
library alone, and other packages only in the functions that use them."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OURS = ("cdc_core", "spark_jobs")
DRIVER = "driver.parquet"
_TAKES_SECONDS = 1.0  # a task takes at least so long, so that every executor gets one
_WAIT_SECONDS = 10.0
_IMPATIENT = {"max_retries": "2", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "10s"}
_TOO_LONG = 400


@dataclass(frozen=True)
class Asked:
    """What an executor is to try. `folder` is in the lake, with a file `DRIVER` that holds `word`; `storage` are
    delta-rs' options for it. `door` is the URL of the service's Flight door, "" if it is unknown, and `source` MySQL's
    `host:port`. `packages` are distributions, `module` is a module of Sluice's that imports what a task needs."""

    packages: tuple[str, ...]
    module: str
    folder: str
    word: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    door: str = ""
    token: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)
    source: str = ""


@dataclass(frozen=True)
class Facts:
    """What one process found. `imports`, `lake`, `door` and `source` are errors, or ""; `versions` has None for a
    package that is not installed; `code` is a digest of Sluice's packages. `file` was written in the lake's folder."""

    host: str
    python: str
    executable: str
    versions: dict[str, str | None]
    code: str
    imports: str
    lake: str
    file: str
    door: str
    source: str
    clock: float


def look(asked: Asked) -> Facts:
    """Returns what this process has and reaches."""
    file = f"{socket.gethostname()}-{os.getpid()}-{time.monotonic_ns()}"
    return Facts(
        os.environ.get("SPARK_LOCAL_IP") or socket.gethostname(),
        platform.python_version(),
        sys.executable,
        {name: _version(name) for name in asked.packages},
        _code(),
        _error(lambda: import_module(asked.module)),
        _error(lambda: _exchange(asked, file)),
        file,
        _error(lambda: _call(asked)) if asked.door else "",
        _error(lambda: _reach(asked.source)) if asked.source else "",
        time.time(),
    )


def look_all(asked: Asked, batches: Iterator[Any]) -> Iterator[Any]:
    """Yields, in a task of Spark, its facts as JSON in a column `facts`."""
    import pyarrow as pa

    for batch in batches:
        for _ in range(batch.num_rows):
            end = time.monotonic() + _TAKES_SECONDS
            found = json.dumps(asdict(look(asked)))
            time.sleep(max(0.0, end - time.monotonic()))
            yield pa.RecordBatch.from_pydict({"facts": [found]})


def _error(work: Callable[[], object]) -> str:
    """Returns the error of the work in one line, or ""."""
    try:
        work()
    except BaseException as error:  # delta-rs raises a BaseException when its own code fails
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines)}"[:_TOO_LONG]
    return ""


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _code() -> str:
    """Returns a digest of the files of Sluice's packages, "" if one of them is not installed."""
    digest = hashlib.sha256()
    for name in OURS:
        spec = find_spec(name)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        if not folders:
            return ""
        root = Path(folders[0])
        for file in sorted(root.rglob("*.py")):
            digest.update(f"{name}/{file.relative_to(root).as_posix()}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _exchange(asked: Asked, file: str) -> None:
    """Reads the driver's file, and writes one of its own."""
    if asked.folder.startswith("/") and not Path(asked.folder).is_dir():
        raise FileNotFoundError(f"{asked.folder}, which the driver has made, does not exist here: it is another disk")
    import pyarrow.parquet as pq

    folder = folder_of(asked)
    if pq.read_table(folder.open_input_file(DRIVER))["word"].to_pylist() != [asked.word]:
        raise OSError("the driver's file has other contents here")
    write(asked, file)


def write(asked: Asked, file: str) -> None:
    """Writes a file with the word."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with folder_of(asked).open_output_stream(file) as sink:
        pq.write_table(pa.table({"word": [asked.word]}), sink)


def folder_of(asked: Asked) -> Any:
    """Returns the lake's folder, in a store that times out sooner than in a run."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(asked.folder, {**_IMPATIENT, **asked.storage}))


def _call(asked: Asked) -> None:
    """Calls the service for nothing: a refusal of its own shows that it was reached."""
    from pyarrow import flight

    options = {"tls_root_certs": asked.ca.encode()} if asked.ca else {}
    headers = [(b"authorization", f"Bearer {asked.token}".encode())] if asked.token else []
    with flight.connect(asked.door, **options) as client:
        call = flight.FlightCallOptions(timeout=_WAIT_SECONDS, headers=headers)
        try:
            client.get_flight_info(flight.FlightDescriptor.for_command(b"{}"), call)
        except flight.FlightUnauthenticatedError:
            raise
        except flight.FlightError as error:
            if not getattr(error, "extra_info", b""):
                raise


def _reach(address: str) -> None:
    host, _, port = address.rpartition(":")
    socket.create_connection((host, int(port)), _WAIT_SECONDS).close()
