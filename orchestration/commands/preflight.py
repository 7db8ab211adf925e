"""`sluice check` without a destination: all that a first start needs, with remedies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from cdc_core.errors import SluiceError
from cdc_core.packages import DISTRIBUTION, missing
from cdc_core.preflight import checked
from orchestration.commands.found import show
from spark_jobs.check.findings import Finding

_JAVA = 17


def run(conf: Path, lake: str, spark: str, token: str, *, as_json: bool) -> int:
    """Prints the findings. Returns 1 when something is wrong."""
    console = Console()
    with console.status("the source, the lake and Spark are asked"):
        found = [Finding(one.what, (one.where,), one.found, one.remedy, one.warning) for one in checked(conf)]
        found += _lake_and_spark(lake, spark, token)
    if as_json:
        print(json.dumps([asdict(one) | {"good": one.good} for one in found]))
    else:
        show(console, found)
    return 0 if all(one.good for one in found) else 1


def _lake_and_spark(lake: str, spark: str, token: str) -> Iterator[Finding]:
    """Yields the findings of the lake, of Spark and of its executors; without a Spark of one's own, of what `sluice up`
    starts one with."""
    try:
        from spark_jobs.lake.tables import Lake

        root = Lake(lake)
        root.check_writable()
        yield Finding("the lake", (lake,), "it can be written from here")
    except ModuleNotFoundError as error:
        yield _absent("the lake", lake, error)
        return
    except SluiceError as error:
        yield Finding("the lake", (error.place or lake,), error.message, error.hint)
        return
    if not spark:
        yield _java()
        return
    from pyspark.errors import PySparkException

    from spark_jobs.check import cluster
    from spark_jobs.session import Sessions

    try:
        with Sessions(spark, token, lake) as sessions, sessions.take() as session:
            yield from cluster.checked(session, root, None)
    except SluiceError as error:
        yield Finding("Spark", (error.place or spark,), error.message, error.hint)
    except PySparkException as error:
        hint = "Start its Connect server, or correct --spark (SPARK_REMOTE)."
        yield Finding("Spark", (spark,), str(error).partition("\n")[0], hint)


def _java() -> Finding:
    """Checks for the Java that runs a Spark on this machine."""
    hint = f"Run: sudo apt-get install -y openjdk-{_JAVA}-jre-headless; or name a Spark of your own: --spark."
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', '')}")
    if java is None:
        return Finding("Spark", ("here",), "`sluice up` starts one, and there is no Java", hint)
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = told.partition('"')[2].partition('"')[0]
    old = not version.partition(".")[0].isdigit() or int(version.partition(".")[0]) < _JAVA
    found = f"`sluice up` starts one, with Java {version or 'of an unknown version'}"
    return Finding("Spark", ("here",), found, hint if old else "")


def _absent(what: str, where: str, error: ModuleNotFoundError) -> Finding:
    wrong = missing(error, error.name or DISTRIBUTION)
    return Finding(what, (where,), wrong.message, wrong.hint)
