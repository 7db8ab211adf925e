"""One ZooKeeper server, run from the jars that pyspark ships."""

from __future__ import annotations

import socket
from pathlib import Path

from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import Process
from orchestration.stack.progress import Notify, quiet
from spark_jobs.connect_server import spark_jars

_JARS = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java", "jackson-", "commons-")


class ZooKeeper(Process):
    """`hosts` is what a client connects to. The data in `directory` survive `stop` and `kill`."""

    def __init__(self, directory: Path, port: int, notify: Notify = quiet) -> None:
        self.hosts = f"127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "zoo.cfg"
        config.write_text(_zoo_cfg(directory / "data", port))
        jars = [str(jar) for jar in sorted(spark_jars().iterdir()) if jar.name.startswith(_JARS)]
        command = [need_java(notify), "-Xms32m", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Dzookeeper.forceSync=no", "-cp", ":".join(jars)]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        super().__init__("ZooKeeper", command, log=directory / "zookeeper.log", ready=lambda: serves(port))


def serves(port: int) -> bool:
    """Whether it gives its mode when asked for it. It listens earlier, and a session asked for then has no answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as server:
            server.sendall(b"srvr")
            return b"Mode:" in b"".join(iter(lambda: server.recv(4096), b""))
    except OSError:
        return False


def _zoo_cfg(data: Path, port: int) -> str:
    settings = {
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": 500,
        "minSessionTimeout": 1000,
        "maxSessionTimeout": 60000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "ruok,srvr",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
