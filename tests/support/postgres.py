"""A real PostgreSQL of Debian's packages, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from orchestration.stack.prerequisites import need
from orchestration.stack.process import Process
from tests.support.servers import free_port


class Postgres(Process):
    """Anybody of this machine may connect as `mirror`, to the database `shop`."""

    def __init__(self) -> None:
        need("PostgreSQL", lambda: bool(_binaries()), ["postgresql"])
        place, port = Path(tempfile.mkdtemp(prefix="postgres-")), free_port()
        self.directory, self.port = place, port
        run = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(place, "postgres", "postgres")
            run = ["runuser", "-u", "postgres", "--"]
        programs, data = _binaries()[-1], place / "data"
        made = [str(programs / "initdb"), "-D", str(data), "-U", "mirror", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run([*run, *made], check=True, capture_output=True, cwd="/")
        command = [*run, str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(place), "-F"]
        super().__init__("PostgreSQL", command, log=place / "log", ready=self._ready, directory=Path("/"))

    def _ready(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.Error:
            return False
        return True

    def connect(self, database: str = "shop") -> Any:
        return psycopg.connect(host="127.0.0.1", port=self.port, user="mirror", dbname=database, autocommit=True)

    def execute(self, *statements: str, database: str = "shop") -> list[Any]:
        """The rows of the last statement."""
        with self.connect(database) as link, link.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def discard(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def _binaries() -> list[Path]:
    return [path.parent for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))]
