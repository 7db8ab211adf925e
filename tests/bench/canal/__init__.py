"""A stock Canal as the peer: its deployer is the user's, named in CANAL_HOME with `canal.client` among its jars."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestration.stack.mysql.server import MySqlServer
from tests.support.servers import free_port

# What bin/startup.sh gives, but for options that Java 17 has no more, and for the heap: 2 to 3 GB there.
_HEAP = os.environ.get("CANAL_HEAP", "-Xms1g -Xmx1g").split()
_SERVER = ["-server", *_HEAP, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=250", "-Xss1m"]
_SERVER += ["-XX:+ExplicitGCInvokesConcurrent", "-XX:-OmitStackTraceInFastThrow", "-Djava.awt.headless=true"]
_CLIENT = ["-Xmx256m"]
_STARTS = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Canal:
    """A server that reads, and the command of a client that drains it."""

    process: psutil.Process
    client: list[str]


def home() -> Path | None:
    """The deployer's directory, if there is one."""
    place = os.environ.get("CANAL_HOME")
    return Path(place) if place else None


def version(place: Path) -> str:
    jar = next((place / "lib").glob("canal.server-*.jar"))
    return jar.stem.removeprefix("canal.server-")


@contextmanager
def canal(place: Path, mysql: MySqlServer, begin: tuple[str, int]) -> Iterator[Canal]:
    """A server at `begin`, in memory mode, as its files have it: parallel parser, 16 MB ring."""
    with tempfile.TemporaryDirectory(prefix="bench-canal-") as directory:
        work, port = Path(directory), free_port()
        configure(work, port, mysql, begin)
        server = launch(place, work, port)
        try:
            yield Canal(server, client(place, work, Path(__file__).parent / "Drain.java", port, "bench"))
        finally:
            server.terminate()
            server.wait(30)


def launch(place: Path, work: Path, port: int) -> psutil.Popen:
    """A server of what was configured in `work`, when it answers."""
    path = f"{work}/conf:{place}/conf:{place}/lib/*"
    settings = f"-Dcanal.conf={work}/conf/canal.properties"
    command = ["java", *_SERVER, settings, "-cp", path, "com.alibaba.otter.canal.deployer.CanalLauncher"]
    with (work / "log").open("ab") as log:
        server = psutil.Popen(command, cwd=work / "bin", stdout=log, stderr=log)
    _until_open(port)
    return server


def client(place: Path, work: Path, source: Path, port: int, destination: str) -> list[str]:
    """The command of a client, compiled into `work`."""
    subprocess.run(["javac", "-cp", f"{place}/lib/*", "-d", str(work), str(source)], check=True)
    logs = f"-Dlogback.configurationFile={work}/quiet.xml"
    return ["java", *_CLIENT, logs, "-cp", f"{work}:{place}/lib/*", source.stem, str(port), destination]


def configure(
    work: Path, port: int, mysql: MySqlServer, begin: tuple[str, int], name: str = "bench", **general: object
) -> None:
    """The destination `name`, which captures `name`; `general` is of canal.properties, `__` for a dot. Tables' history
    is off: that one is a database beside."""
    (work / "bin").mkdir()
    (work / "conf" / name).mkdir(parents=True)
    service: dict[str, object] = {
        "canal.port": port, "canal.metrics.pull.port": free_port(), "canal.admin.port": free_port(),
        "canal.serverMode": "tcp", "canal.destinations": name, "canal.conf.dir": work / "conf",
        "canal.auto.scan": "false", "canal.instance.tsdb.enable": "false", "canal.instance.global.mode": "spring",
        "canal.instance.global.lazy": "false", "canal.instance.parser.parallel": "true",
        "canal.instance.global.spring.xml": "classpath:spring/memory-instance.xml",
        "canal.instance.binlog.format": "ROW,STATEMENT,MIXED", "canal.instance.binlog.image": "FULL,MINIMAL,NOBLOB",
    } | {key.replace("__", "."): value for key, value in general.items()}  # fmt: skip
    instance = {
        "canal.instance.master.address": f"{mysql.host}:{mysql.port}",
        "canal.instance.dbUsername": mysql.user, "canal.instance.dbPassword": mysql.password,
        "canal.instance.master.journal.name": begin[0], "canal.instance.master.position": begin[1],
        "canal.instance.filter.regex": rf"{name}\\..*", "canal.instance.tsdb.enable": "false",
        "canal.instance.connectionCharset": "UTF-8", "canal.mq.topic": name,
    }  # fmt: skip
    for path, keys in (("canal.properties", service), (f"{name}/instance.properties", instance)):
        (work / "conf" / path).write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    (work / "quiet.xml").write_text('<configuration><root level="WARN"/></configuration>')


def _until_open(port: int) -> None:
    deadline = time.monotonic() + _STARTS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "Canal does not answer"
        time.sleep(0.2)
