"""A real RocketMQ: a name server, a broker and a proxy, from Maven's jars, and what its topics hold."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from cdc_core.canal.queues.place import HEADER
from orchestration.stack.artifacts import prepare
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import Process
from spark_jobs.connect_server import spark_jars
from tests.support.servers import free_port

_PARTS = [Artifact("org.apache.rocketmq", f"rocketmq-{name}", "5.2.0") for name in ("proxy", "namesrv")]
_OPENED = ["java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.lang", "java.base/java.util"]


def jars() -> Path:
    def fill(place: Path) -> None:
        for part in _PARTS:
            fetch(part, place, transitive=True)

    return prepare("rocketmq-5.2.0", _PARTS[-1].jar, fill)


class RocketMQ:
    """`proxy` is its address, for clients. The broker and the proxy are one process."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        names, listen, proxy, remoting = free_port(), free_port(), free_port(), free_port()
        self._names = f"127.0.0.1:{names}"
        self.proxy = f"127.0.0.1:{proxy}"
        (directory / "conf").mkdir(exist_ok=True)
        (directory / "namesrv.properties").write_text(f"listenPort={names}\n")
        (directory / "broker.conf").write_text(
            f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
            f"listenPort={listen}\nautoCreateTopicEnable=false\nstorePathRootDir={directory}/store\n"
            f"mappedFileSizeCommitLog=67108864\nmappedFileSizeConsumeQueue=600000\nfastFailIfNoBufferInStorePool=false\n"
            "waitTimeMillsInSendQueue=10000\n"
        )
        (directory / "conf" / "rmq-proxy.json").write_text(
            json.dumps(
                {"grpcServerPort": proxy, "remotingListenPort": remoting, "rocketMQClusterName": "DefaultCluster"}
            )
        )
        java = [need_java(), "-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m"]
        java += [f"--add-opens={name}=ALL-UNNAMED" for name in _OPENED]
        java += [f"--add-exports={name}=ALL-UNNAMED" for name in ("java.base/sun.nio.ch", "java.base/jdk.internal.ref")]
        java += [f"-Duser.home={directory}", "-cp", ":".join([*_native(), f"{jars()}/*"])]
        self._java = java
        home: dict[str, str | None] = {"ROCKETMQ_HOME": str(directory)}
        self.names = Process(
            "RocketMQ's name server",
            [*java, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(directory / "namesrv.properties")],
            log=directory / "namesrv.log",
            ready=lambda: _listens(names),
            environment=home,
        )
        command = [*java, "org.apache.rocketmq.proxy.ProxyStartup", "-pm", "local", "-n", self._names]
        command += ["-bc", str(directory / "broker.conf"), "-pc", str(directory / "conf" / "rmq-proxy.json")]
        self.broker = Process(
            "RocketMQ",
            command,
            log=directory / "broker.log",
            ready=lambda: _listens(proxy) and _listens(listen),
            environment=home,
        )

    def start(self) -> RocketMQ:
        self.names.start()
        self.broker.start()
        return self

    def kill(self) -> None:
        self.broker.kill()
        self.names.kill()

    def create(self, topic: str, queues: int = 1, kind: str = "FIFO") -> None:
        self._admin(
            "updateTopic",
            "-t",
            topic,
            "-c",
            "DefaultCluster",
            "-r",
            str(queues),
            "-w",
            str(queues),
            "-a",
            f"+message.type={kind}",
        )
        self._admin("updateSubGroup", "-g", f"of-{topic}", "-c", "DefaultCluster", "-o", "true")

    def _admin(self, *words: str) -> None:
        command = [*self._java, "org.apache.rocketmq.tools.command.MQAdminStartup", words[0], "-n", self._names]
        deadline = time.monotonic() + 120
        while True:
            done = subprocess.run(
                [*command, *words[1:]],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "ROCKETMQ_HOME": str(self._directory)},
            )
            if "success" in done.stdout:
                return
            assert time.monotonic() < deadline, done.stdout + done.stderr
            time.sleep(1)

    def messages(self, topic: str, count: int, seconds: float = 120) -> list[Any]:
        """The messages of a topic as they come to one consumer, until there are so many with a place of their own."""
        import rocketmq

        logging.getLogger("rocketmq-python-client").handlers.clear()
        settings = rocketmq.ClientConfiguration(self.proxy, rocketmq.Credentials(), request_timeout=30)
        consumer = rocketmq.SimpleConsumer(settings, f"of-{topic}", {topic: rocketmq.FilterExpression()})
        consumer.startup()
        found: list[Any] = []
        try:
            deadline = time.monotonic() + seconds
            while len({(one.properties[HEADER], one.message_group) for one in found}) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
                for message in _received(consumer):
                    found.append(message)
                    consumer.ack(message)
        finally:
            consumer.shutdown()
        return found


def _received(consumer: Any) -> list[Any]:
    """Nothing while the proxy does not know the consumer's settings yet."""
    try:
        return consumer.receive(32, 30) or []
    except Exception:
        time.sleep(0.5)
        return []


def _native() -> list[str]:
    """TLS for the proxy: its native library, which pyspark ships, is an artifact that ivy leaves out here."""
    return [str(jar) for jar in sorted(spark_jars().glob("netty-tcnative-*.jar"))]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
