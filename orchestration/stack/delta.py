"""Delta's jars for the installed pyspark, downloaded once."""

from __future__ import annotations

from pathlib import Path

from orchestration.stack.artifacts import prepare
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.progress import Notify, quiet
from spark_jobs.connect_server import delta_artifact, spark_jars


def delta_jars(notify: Notify = quiet) -> Path:
    """The directory of the jars that Spark lacks. Raises ConfigError."""
    artifact = Artifact(*delta_artifact().split(":"))

    def fill(directory: Path) -> None:
        notify(f"downloading {artifact} (once)")
        fetch(artifact, directory, transitive=True, notify=notify)
        shipped = {_name(jar) for jar in spark_jars().glob("*.jar")}
        for jar in directory.glob("*.jar"):
            if _name(jar) in shipped:
                jar.unlink()  # two versions on one class path clash

    return prepare(f"{artifact.name}-{artifact.revision}", artifact.jar, fill)


def _name(jar: Path) -> str:
    """A jar's name without its version."""
    return "-".join(word for word in jar.stem.split("-") if not word[:1].isdigit())
