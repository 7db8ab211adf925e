"""What Canal's files say about message queues: `canal.serverMode`, `canal.mq.*`, `kafka.*` and `rocketmq.*`.

Keys of Canal up to 1.1.4 (`canal.mq.servers` and others) count where they are set, as in Canal.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator

from cdc_core.config.properties import Properties

_MODES = {"tcp": "tcp", "kafka": "kafka", "rocketmq": "rocketMQ"}
ServerMode = Annotated[
    Literal["tcp", "kafka", "rocketMQ"],
    BeforeValidator(lambda value: _MODES.get(value.strip().lower(), value) if isinstance(value, str) else value),
]
SERVER_MODE = "canal.serverMode"
_OLD_KEYS = {
    "kafka": {
        "canal.mq.servers": "kafka.bootstrap.servers",
        "canal.mq.acks": "kafka.acks",
        "canal.mq.compressionType": "kafka.compression.type",
        "canal.mq.retries": "kafka.retries",
        "canal.mq.batchSize": "kafka.batch.size",
        "canal.mq.lingerMs": "kafka.linger.ms",
        "canal.mq.maxRequestSize": "kafka.max.request.size",
        "canal.mq.bufferMemory": "kafka.buffer.memory",
    },
    "rocketMQ": {
        "canal.mq.servers": "rocketmq.namesrv.addr",
        "canal.mq.producerGroup": "rocketmq.producer.group",
        "canal.mq.namespace": "rocketmq.namespace",
    },
}


def _no_kerberos(value: bool) -> bool:
    if value:
        raise ValueError("Kerberos is not supported")
    return value


class QueueConfig(BaseModel):
    """A destination's queue. `kafka`: the producer's properties by their names in Kafka. `client_id` is whose cursor
    the queue moves: Canal's is 1001."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    mode: ServerMode = Field("kafka", alias="canal.serverMode")
    client_id: Annotated[int, Field(ge=0)] = Field(1001, alias="sluice.mq.client")
    topic: str = Field("", alias="canal.mq.topic")
    partition: Annotated[int, Field(ge=0)] = Field(0, alias="canal.mq.partition")
    partitions_num: Annotated[int, Field(ge=1, le=100_000)] = Field(1, alias="canal.mq.partitionsNum")
    partition_hash: str = Field("", alias="canal.mq.partitionHash")
    dynamic_topic: str = Field("", alias="canal.mq.dynamicTopic")
    dynamic_topic_partition_num: str = Field("", alias="canal.mq.dynamicTopicPartitionNum")
    flat_message: bool = Field(True, alias="canal.mq.flatMessage")
    batch_size: Annotated[int, Field(gt=0)] = Field(50, alias="canal.mq.canalBatchSize")
    database_hash: bool = Field(True, alias="canal.mq.database.hash")
    send_threads: Annotated[int, Field(gt=0, le=256)] = Field(30, alias="canal.mq.send.thread.size")
    kerberos: Annotated[bool, AfterValidator(_no_kerberos)] = Field(False, alias="kafka.kerberos.enable")
    kafka: dict[str, str] = Field(default_factory=dict, repr=False)  # passwords are among the values
    name_servers: str = Field("127.0.0.1:9876", alias="rocketmq.namesrv.addr")
    proxy: str = Field("", alias="sluice.rocketmq.proxy")
    namespace: str = Field("", alias="rocketmq.namespace")
    tag: str = Field("", alias="rocketmq.tag")
    access_key: SecretStr = Field(SecretStr(""), alias="canal.aliyun.accessKey")
    secret_key: SecretStr = Field(SecretStr(""), alias="canal.aliyun.secretKey")
    most_bytes: Annotated[int, Field(ge=1024)] = Field(4 << 20, alias="sluice.rocketmq.max.message.bytes")

    @field_validator("kafka")
    @classmethod
    def _acknowledged(cls, value: dict[str, str]) -> dict[str, str]:
        if value.get("acks", "all") not in ("all", "-1"):
            raise ValueError(
                f"kafka.acks = {value['acks']} can lose messages when one broker fails: only all is supported"
            )
        return value

    @property
    def endpoints(self) -> str:
        """RocketMQ's proxies: those that are configured, or port 8081 where the name servers are."""
        if self.proxy:
            return self.proxy
        hosts = (
            one.strip().rpartition(":")[0] for one in self.name_servers.replace(",", ";").split(";") if one.strip()
        )
        return ";".join(f"{host}:8081" for host in hosts)


QUEUE_KEYS = frozenset(str(field.alias) for field in QueueConfig.model_fields.values() if field.alias)


def is_of_queues(key: str, mode: str) -> bool:
    """Whether the key counts in this mode."""
    if mode == "tcp":
        return key == SERVER_MODE
    return key in QUEUE_KEYS or key in _OLD_KEYS.get(mode, {}) or (mode == "kafka" and key.startswith("kafka."))


def queue_values(properties: Properties, mode: str, destination: str) -> dict[str, object]:
    """The values of a QueueConfig. The topic is the destination's name where none is set."""
    values: dict[str, object] = {key: value for key in QUEUE_KEYS if (value := properties.get(key))}
    kafka = {key.removeprefix("kafka."): properties.get(key) or "" for key in _keys(properties, "kafka.")}
    for old, new in _OLD_KEYS.get(mode, {}).items():
        if value := properties.get(old):
            if new.startswith("kafka."):
                kafka[new.removeprefix("kafka.")] = value
            else:
                values[new] = value
    values["kafka"] = {key: value for key, value in kafka.items() if value and not key.startswith("kerberos.")}
    values.setdefault("canal.mq.topic", destination)
    return values


def _keys(properties: Properties, prefix: str) -> set[str]:
    found: set[str] = set()
    level: Properties | None = properties
    while level is not None:
        found |= {key for key in level.own if key.startswith(prefix)}
        level = level.defaults
    return found
