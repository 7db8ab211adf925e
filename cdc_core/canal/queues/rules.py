"""Which topic and which partition a table's rows belong to, by Canal's rules.

`canal.mq.dynamicTopic` is a list of `pattern` or `topic:pattern`, `canal.mq.partitionHash` one of `pattern`,
`pattern:$pk$` or `pattern:column^column`, `canal.mq.dynamicTopicPartitionNum` one of `pattern:number`. The first that
matches counts. A pattern without a special character is a name; both ignore case. Source: Canal's `MQMessageUtils`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cdc_core.config.queue import QueueConfig
from cdc_core.errors import ConfigError

_SPECIAL = set("*?+|(){}[]\\$^")
_KEY = "$pk$"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A name or a regular expression, for tables (`database.table`), databases or topics."""

    text: str
    regex: re.Pattern[str] | None

    def matches(self, name: str) -> bool:
        if self.regex is None:
            return self.text.lower() == name.lower()
        return self.regex.fullmatch(name) is not None

    @property
    def of_tables(self) -> bool:
        """Whether an expression is for tables, not for databases."""
        return "\\." in self.text


@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows of these tables go to the partition that the hash of the table's name says, of the primary key's values
    (`by_key`), or of the `columns`' values."""

    pattern: Pattern
    by_key: bool = False
    columns: tuple[str, ...] = ()

    @property
    def by_table(self) -> bool:
        return not self.by_key and not self.columns


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """Where a table's messages go. Without `hashed` all rows go to `partition`, and what has no rows goes to
    `statements`; `seed` is the hash of the database."""

    topic: str
    partition: int
    statements: int
    partitions: int
    hashed: Hashed | None = None
    seed: int = 0


class TopicRules:
    """Raises ConfigError for a pattern that is not a regular expression."""

    def __init__(self, config: QueueConfig) -> None:
        self._config = config
        self._topics = [_topic(item) for item in _items(config.dynamic_topic)]
        self._hashes = [_hashed(item) for item in _items(config.partition_hash)]
        self._counts = [_count(item) for item in _items(config.dynamic_topic_partition_num)]

    def __repr__(self) -> str:
        return f"<Rules {self._config.topic}>"

    @property
    def keeps_boundaries(self) -> bool:
        """Begins and ends of transactions are sent where all goes to one partition of one topic."""
        return not self._topics and not self._hashes

    def target(self, database: str, table: str) -> TopicTarget:
        topic = self._topic(database, table)
        partitions = next((count for pattern, count in self._counts if pattern.matches(topic)), None)
        partitions = partitions or self._config.partitions_num
        if not self._hashes:
            return TopicTarget(topic, self._config.partition, self._config.partition, 1)
        name = f"{database}.{table}"
        found = next((one for one in self._hashes if one.pattern.matches(name)), None)
        if found is None or not table:
            return TopicTarget(topic, 0, 0, partitions)
        if found.by_table:
            return TopicTarget(topic, remainder(java_hash(table), partitions), 0, partitions)
        seed = java_hash(database) if self._config.database_hash else 0
        return TopicTarget(topic, 0, 0, partitions, found, seed)

    def _topic(self, database: str, table: str) -> str:
        if not self._topics:
            return self._config.topic
        topic = self._config.topic
        if database and table:
            topic = self._dynamic(f"{database}.{table}") or self._dynamic(database) or topic
        return topic.replace(".", "_")

    def _dynamic(self, name: str) -> str | None:
        for topic, pattern in self._topics:
            if pattern.matches(name) and (pattern.regex is None or pattern.of_tables == ("." in name)):
                return topic or name.lower()
        return None


def java_hash(text: str) -> int:
    """`String.hashCode`: 32 bits with a sign."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def remainder(value: int, partitions: int) -> int:
    """The partition of a hash."""
    return abs(value) % partitions


def _items(text: str) -> Iterator[str]:
    return (item.strip() for item in text.replace(",", ";").split(";") if item.strip())


def _pattern(text: str, key: str) -> Pattern:
    if not _SPECIAL & set(text):
        return Pattern(text, None)
    try:
        return Pattern(text, re.compile(text, re.IGNORECASE))
    except re.error as error:
        raise ConfigError(f"{text!r} is not a regular expression: {error}", place=key, hint=f"Correct {key}.") from None


def _topic(item: str) -> tuple[str, Pattern]:
    topic, colon, pattern = item.partition(":")
    if not colon:
        topic, pattern = "", item
    return topic.strip(), _pattern(pattern.strip(), "canal.mq.dynamicTopic")


def _hashed(item: str) -> Hashed:
    tables, colon, columns = item.rpartition(":")
    if not colon:
        return Hashed(_pattern(item, "canal.mq.partitionHash"))
    pattern = _pattern(tables, "canal.mq.partitionHash")
    if columns.lower() == _KEY:
        return Hashed(pattern, by_key=True)
    return Hashed(pattern, columns=tuple(name.lower() for name in columns.split("^") if name))


def _count(item: str) -> tuple[Pattern, int]:
    key = "canal.mq.dynamicTopicPartitionNum"
    topic, _, number = item.rpartition(":")
    if not topic or not number.isdigit() or int(number) < 1:
        raise ConfigError(f"{item!r} is not topic:number", place=key, hint=f"Correct {key}.")
    return _pattern(topic, key), int(number)
