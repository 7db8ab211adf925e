"""A real Kafka broker in KRaft mode, from Maven's jars, and what its topics hold."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from orchestration.stack.artifacts import prepare
from orchestration.stack.ivy import Artifact, fetch
from orchestration.stack.prerequisites import need_java
from orchestration.stack.process import Process
from tests.support.servers import free_port
from tests.support.waiting import until

_ARTIFACT = Artifact("org.apache.kafka", "kafka_2.13", "4.1.0")
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


def jars() -> Path:
    return prepare("kafka-4.1.0", _ARTIFACT.jar, lambda place: void(fetch(_ARTIFACT, place, transitive=True)))


def void(_: object) -> None:
    """For `prepare`, which wants nothing back."""


class Kafka(Process):
    """`servers` is its address, which stays. What topics hold survives `stop` and `kill`."""

    def __init__(self, directory: Path, port: int | None = None, **settings: object) -> None:
        port, controller = port or free_port(), free_port()
        self.servers = f"127.0.0.1:{port}"
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "server.properties"
        config.write_text(_properties(directory, port, controller, settings))
        self._java = [need_java(), "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java += ["-cp", f"{jars()}/*"]
        self._config = config
        if not (directory / "data" / "meta.properties").exists():
            self._format()
        super().__init__(
            "Kafka",
            [*self._java, "kafka.Kafka", str(config)],
            log=directory / "kafka.log",
            ready=lambda: _listens(port) and self.admin().list_topics(timeout=5) is not None,
        )

    def _format(self) -> None:
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._config)]
        subprocess.run(command, check=True, capture_output=True)

    def admin(self) -> Any:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        wanted = NewTopic(topic, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
        admin = self.admin()
        admin.create_topics([wanted])[topic].result(60)

    def messages(self, topic: str, partition: int = 0) -> list[Any]:
        """All messages of a partition, oldest first."""
        high = until(lambda: self._high(topic, partition))[0]
        consumer = self._consumer()
        found: list[Any] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while len(found) < high and (not found or found[-1].offset() < high - 1):
                message = consumer.poll(10)
                assert message is not None, f"{len(found)} of {high} messages came"
                assert message.error() is None
                found.append(message)
        finally:
            consumer.close()
        return found

    def _high(self, topic: str, partition: int) -> list[int]:
        """Where a partition ends; nothing for one that was just made, of which the broker does not know the leader. A
        consumer that has asked for such a partition does not learn of it for minutes."""
        consumer = self._consumer()
        try:
            return [consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1]]
        except KafkaException:
            return []
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.servers, "group.id": "test", "enable.auto.commit": False})


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _properties(directory: Path, port: int, controller: int, settings: dict[str, object]) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())
