"""Topics and partitions by Canal's rules, and what their configuration may say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.canal.queues.kafka import settings
from cdc_core.canal.queues.rules import TopicRules, TopicTarget, java_hash, remainder
from cdc_core.config import load_instance, load_service
from cdc_core.config.queue import QueueConfig
from cdc_core.errors import ConfigError


def _rules(**keys: object) -> TopicRules:
    return TopicRules(QueueConfig.model_validate({"canal.mq.topic": "rest"} | keys))


@pytest.mark.parametrize(
    ("rule", "table", "topic"),
    [
        ("", ("shop", "orders"), "rest"),
        ("shop.orders", ("shop", "orders"), "shop_orders"),
        ("SHOP.Orders", ("shop", "ORDERS"), "shop_orders"),
        ("shop", ("shop", "orders"), "shop"),
        ("shop", ("shops", "orders"), "rest"),
        (r".*\..*", ("Shop", "Orders"), "shop_orders"),
        (r"sh.*", ("shop", "orders"), "shop"),
        (r"all.orders:shop\.o.*", ("shop", "orders"), "all_orders"),
        (r"a:shop\.x;b:shop\.o.*,c:.*\..*", ("shop", "orders"), "b"),
        (r"whole:shop,one:shop.orders", ("shop", "orders"), "one"),
        (r".*\..*", ("shop", ""), "rest"),
    ],
)
def test_a_tables_topic(rule: str, table: tuple[str, str], topic: str) -> None:
    """Names and expressions, of tables before those of databases; the first that matches; dots become underscores."""
    assert _rules(**{"canal.mq.dynamicTopic": rule}).target(*table).topic == topic


@pytest.mark.parametrize(
    ("rule", "mode", "columns"),
    [
        (r"shop\..*:$pk$", "key", ()),
        ("shop.orders:Customer^day", "columns", ("customer", "day")),
        ("shop.orders", "table", ()),
        ("shop.other:$pk$", "none", ()),
        (r"shop\.other:$pk$,.*\..*:id", "columns", ("id",)),
    ],
)
def test_what_is_hashed(rule: str, mode: str, columns: tuple[str, ...]) -> None:
    """By key, by columns, by the table's name; without a rule all goes to the first partition."""
    keys = {"canal.mq.partitionHash": rule, "canal.mq.partitionsNum": 7, "canal.mq.partition": 3}
    found = _rules(**keys).target("shop", "orders")
    if mode == "table":
        assert found == TopicTarget("rest", remainder(java_hash("orders"), 7), 0, 7)
    elif mode == "none":
        assert found == TopicTarget("rest", 0, 0, 7)
    else:
        assert found.hashed is not None
        assert (found.hashed.by_key, found.hashed.columns) == (mode == "key", columns)
        assert found.seed == java_hash("shop")


def test_a_topics_own_number_of_partitions() -> None:
    """`dynamicTopicPartitionNum` is over `partitionsNum`."""
    rules = _rules(
        **{
            "canal.mq.dynamicTopic": r".*\..*",
            "canal.mq.dynamicTopicPartitionNum": "shop_orders:5, shop_.*:2",
            "canal.mq.partitionHash": r".*\..*:$pk$",
        }
    )
    partitions = [rules.target("shop", "orders").partitions, rules.target("shop", "x").partitions]
    assert [*partitions, rules.target("other", "x").partitions] == [5, 2, 1]


@pytest.mark.parametrize(
    ("text", "value"), [("", 0), ("a", 97), ("polygenelubricants", -(1 << 31)), ("\U0001f600", 1772899)]
)
def test_javas_hash(text: str, value: int) -> None:
    """As `String.hashCode`, over units of UTF-16."""
    assert java_hash(text) == value


@given(st.text(max_size=30), st.integers(1, 1000))
def test_a_partition_is_always_one(text: str, partitions: int) -> None:
    """Also of the smallest number, which `Math.abs` leaves negative."""
    assert 0 <= remainder(java_hash(text), partitions) < partitions
    assert 0 <= remainder(-(1 << 31), partitions) < partitions


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("canal.mq.dynamicTopic", "a[", "not a regular expression"),
        ("canal.mq.partitionHash", "*.x:$pk$", "not a regular expression"),
        ("canal.mq.dynamicTopicPartitionNum", "topic", "not topic:number"),
        ("canal.mq.dynamicTopicPartitionNum", "topic:0", "not topic:number"),
    ],
)
def test_a_rule_that_cannot_be(key: str, value: str, said: str) -> None:
    """The error names the key."""
    with pytest.raises(ConfigError, match=said) as raised:
        _rules(**{key: value})
    assert raised.value.place == key


def _conf(folder: Path, service: str, instance: str = "") -> Path:
    (folder / "shop").mkdir()
    (folder / "canal.properties").write_text(service)
    (folder / "shop" / "instance.properties").write_text(instance)
    return folder


def test_the_keys_of_a_canal_configuration(tmp_path: Path) -> None:
    """Those of the service and of the instance, the old ones of 1.1.4, and Kafka's own; others are without effect."""
    conf = _conf(
        tmp_path,
        "canal.serverMode = Kafka\ncanal.mq.servers = k:9092\nkafka.acks = all\nkafka.linger.ms = 3\n"
        "canal.mq.flatMessage = false\nrabbitmq.host = x\nkafka.kerberos.enable = false\n",
        "canal.mq.topic = t\ncanal.mq.partitionsNum = 4\n",
    )
    config, report = load_service(conf)
    instance, _ = load_instance(conf, "shop")
    assert (config.server_mode, config.serves_tcp) == ("kafka", False)
    assert instance.queue is not None
    assert (instance.queue.topic, instance.queue.partitions_num, instance.queue.flat_message) == ("t", 4, False)
    assert instance.queue.kafka == {"bootstrap.servers": "k:9092", "acks": "all", "linger.ms": "3"}
    assert (report.unknown, report.unsupported) == ((), ("rabbitmq.host",))
    assert "k:9092" not in repr(instance)


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("canal.serverMode = rabbitMQ\n", "'tcp', 'kafka' or 'rocketMQ'"),
        ("canal.serverMode = kafka\nkafka.acks = 1\n", "kafka.acks = 1"),
        ("canal.serverMode = kafka\nkafka.kerberos.enable = true\n", "Kerberos"),
        ("canal.serverMode = kafka\ncanal.mq.partitionsNum = 0\n", "greater than or equal to 1"),
    ],
)
def test_what_no_queue_can_be(service: str, said: str, tmp_path: Path) -> None:
    """Refused by name, before anything is sent."""
    conf = _conf(tmp_path, service)
    with pytest.raises(ConfigError, match=said):
        load_instance(conf, "shop")


def test_kafkas_properties_as_the_client_takes_them() -> None:
    """Java's names where they differ; what would lose order or rows is not the user's choice."""
    found = settings(
        {
            "bootstrap.servers": "k:1",
            "max.request.size": "5000",
            "retries": "0",
            "buffer.memory": "33554432",
            "max.in.flight.requests.per.connection": "1",
            "sasl.jaas.config": 'org.apache.kafka.PlainLoginModule required username="me" password="s3cret=";',
        }
    )
    assert (found["message.max.bytes"], found["queue.buffering.max.kbytes"], found["acks"]) == (5000, 32768, "all")
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "s3cret=")
    assert (found["enable.idempotence"], "retries" in found) == (True, False)
    with pytest.raises(ConfigError, match="Java key store"):
        settings({"ssl.truststore.location": "/x.jks"})
    with pytest.raises(ConfigError, match="'32m' is not a number"):
        settings({"buffer.memory": "32m"})
