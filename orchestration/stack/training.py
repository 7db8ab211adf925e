"""Makes the archive of Spark's classes: a separate server applies a made-up batch, and its Java writes the classes
that it loaded when it ends. `make setup` runs this module, which takes about a minute of CPU."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cdc_core.errors import LakeError, SluiceError
from orchestration.stack.classes import make_class_archive
from orchestration.stack.delta import delta_jars
from orchestration.stack.ports import free_port
from orchestration.stack.prerequisites import need_java
from orchestration.stack.spark import SparkConnect

_DUMP_SECONDS = 120  # how long Java may take to write


def train(archive: Path) -> None:
    """Writes an archive to this path. Raises LakeError."""
    from spark_jobs.warming.warm_up import WarmUp  # loads all of pyspark

    with tempfile.TemporaryDirectory(prefix="sluice-training-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        conf = {"spark.driver.defaultJavaOptions": f'"-XX:ArchiveClassesAtExit={archive}" -XX:TieredStopAtLevel=1'}
        metastore = folder / "metastore"
        server = SparkConnect(
            folder / "spark", free_port(), driver_memory="1g", conf=conf, metastore=metastore, grace=_DUMP_SECONDS
        )
        with server:
            WarmUp(server.remote, folder / "tables", tables=1).run()
        if not archive.is_file():
            hint = "No action needed: Spark starts without one, slower."
            raise LakeError(f"Java wrote no archive of Spark's classes:\n{server.tail(3)}", hint=hint)


def main() -> int:
    """Makes the archive unless there is one. Returns the exit code."""
    try:
        need_java()
        make_class_archive(delta_jars(), train)
    except SluiceError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
