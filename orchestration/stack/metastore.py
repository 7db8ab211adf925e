"""The Hive metastore in a lake's folder, a database of Derby's, before a Spark opens it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

from orchestration.stack.prerequisites import need_java
from spark_jobs.connect_server import DERBY, spark_jars
from spark_jobs.lake.catalog_names import METASTORE
from spark_jobs.stores import local_folder

_PLACE = "place"  # the file that says where the metastore was when Spark opened it last
_PATHS = (("DBS", "DB_LOCATION_URI"), ("SDS", "LOCATION"), ("SERDE_PARAMS", "PARAM_VALUE"))
_SECONDS = 60.0  # that the database may take


def metastore_in(lake: str) -> Path:
    """Returns the directory of the metastore that belongs to a lake: no destination has a folder of that name."""
    return (local_folder(lake) or Path(lake)) / METASTORE


def make_ready(metastore: Path) -> None:
    """Makes the directory one that Spark can open, also if a start was killed, or the lake was moved or copied."""
    metastore.mkdir(parents=True, exist_ok=True)
    clear_torn(metastore)
    place = metastore / _PLACE
    here, before = str(metastore.absolute()), place.read_text() if place.exists() else ""
    if before and before != here and (metastore / DERBY).exists():
        answer = ask_derby(metastore, moving(before, here))
        if "ERROR" in answer:
            return  # the next start tries again; Spark says what is wrong with the database
    place.write_text(here)


def clear_torn(metastore: Path) -> None:
    """Removes a database of Derby's that was never whole: one whose creation was killed has no `service.properties`,
    and no Derby opens it or makes it anew."""
    database = metastore / DERBY
    if database.is_dir() and not (database / "service.properties").exists():
        shutil.rmtree(database)


def moving(before: str, here: str) -> str:
    """Returns the statements by which databases, and what Spark keeps in their warehouse, are where the metastore is
    now."""
    statements = []
    for old, new in {before: here, quote(before): quote(here)}.items():
        was, now = f"file:{old}/", f"file:{new}/"
        for table, column in _PATHS:
            statements.append(  # of values that begin so: in LIKE a path could have wildcards
                f"UPDATE {table} SET {column} = {_text(now)} || SUBSTR({column}, {len(was) + 1}) "  # noqa: S608
                f"WHERE SUBSTR({column}, 1, {len(was)}) = {_text(was)};"
            )
    return "\n".join(statements)


def ask_derby(metastore: Path, statements: str) -> str:
    """Returns what Derby's own shell answers to SQL; errors are lines with ERROR. The database is open nowhere else."""
    jars = ":".join(str(path) for path in spark_jars().glob("derby*.jar"))
    command = [need_java(), "-Xmx128m", "-XX:TieredStopAtLevel=1", f"-Dderby.system.home={metastore}"]
    command += ["-Dderby.stream.error.method=java.io.OutputStream.nullOutputStream", "-cp", jars]
    asked = f"CONNECT 'jdbc:derby:;databaseName={DERBY};create=true';\n{statements}\nEXIT;\n"
    line = [*command, "org.apache.derby.tools.ij"]
    try:
        done = subprocess.run(line, input=asked, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return "ERROR: no answer"
    return done.stdout + done.stderr


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
