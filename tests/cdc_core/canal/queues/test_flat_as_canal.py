"""Flat messages against those that a Java Canal made of the same entries (see `tests/canal_java/test_entries.py`)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cdc_core.canal.entries.wire import block
from cdc_core.canal.protocol import declared
from cdc_core.canal.queues.messages import ClaimFacts, Messages, Outgoing
from cdc_core.canal.queues.place import Numbering
from cdc_core.canal.queues.rules import TopicRules
from cdc_core.config.queue import QueueConfig

RECORD = json.loads((Path(__file__).parents[3] / "fixtures" / "canal_flat_messages.json").read_text())
ENTRIES = [base64.b64decode(entry) for entry in RECORD["entries"]]


def _messages(entries: list[bytes], rules: list[str], *, flat: bool = True, most: int = 1 << 20) -> list[Outgoing]:
    values: dict[str, Any] = {"canal.mq.topic": "matrix", "canal.mq.flatMessage": flat}
    if rules:
        keys = ("canal.mq.partitionsNum", "canal.mq.partitionHash", "canal.mq.database.hash")
        values |= dict(zip(keys, rules, strict=True))
    maker = Messages(TopicRules(QueueConfig.model_validate(values)), flat=flat, most_bytes=most)
    piece = np.frombuffer(b"".join(block(2, entry) for entry in entries), np.uint8)
    found, _ = maker.of(piece, ClaimFacts(7, 1_700_000_000_000, 1), Numbering(), lambda _topic, _partition: None)
    return list(found)


@pytest.mark.parametrize("recorded", RECORD["flat"], ids=lambda one: " ".join(one["rules"]) or "one partition")
def test_what_canal_writes(recorded: dict[str, Any]) -> None:
    """Each message has Canal's keys and values and goes to Canal's partition. An update's `old` has the columns that
    this row changed; Canal's has those of the rows before it too."""
    expected: dict[int, list[Any]] = {}
    for number, partition, message in recorded["messages"]:
        expected.setdefault(number, []).append((partition, message))
    assert len(expected) == len(ENTRIES)
    for number, entry in enumerate(ENTRIES):
        found = []
        for one in _messages([entry], recorded["rules"]):
            plain = json.loads(one.value)
            assert plain.pop("ts") == 1_700_000_000_000
            found.append((one.partition, plain))
        for (_, ours), (_, canals) in zip(found, expected[number], strict=True):
            for mine, theirs in zip(ours["old"] or (), canals["old"] or (), strict=True):
                assert mine.items() <= theirs.items()
            ours["old"] = canals["old"]
        assert found == expected[number]


@pytest.mark.parametrize("recorded", RECORD["flat"][1:], ids=lambda one: " ".join(one["rules"]))
def test_protobuf_has_the_same_rows_in_the_same_partitions(recorded: dict[str, Any]) -> None:
    """In protobuf each row is an entry of its own where rows are hashed, as in Canal."""
    rows: dict[int, int] = {}
    for _, partition, message in recorded["messages"]:
        rows[partition] = rows.get(partition, 0) + len(message["data"] or [None])
    found: dict[int, int] = {}
    for one in _messages(ENTRIES, recorded["rules"], flat=False):
        packet = declared.Packet.FromString(one.value)
        assert (packet.type, packet.version) == (declared.PacketType.MESSAGES, 1)
        for raw in declared.Messages.FromString(packet.body).messages:
            change = declared.RowChange.FromString(declared.Entry.FromString(raw).storeValue)
            found[one.partition] = found.get(one.partition, 0) + (len(change.rowDatas) or 1)
    assert found == rows


def test_entries_are_whole_in_protobuf() -> None:
    """Without a hash the entries are those that came in, byte by byte."""
    found = []
    for one in _messages(ENTRIES, [], flat=False, most=20_000):
        assert len(one.value) < 20_000
        found += declared.Messages.FromString(declared.Packet.FromString(one.value).body).messages
    assert found == ENTRIES


def test_long_entries_become_several_messages() -> None:
    """Rows stay in order and none is lost when one event does not fit a message."""
    whole = [json.loads(one.value) for one in _messages(ENTRIES, [])]
    parts = [json.loads(one.value) for one in _messages(ENTRIES, [], most=2_000)]
    assert len(parts) > len(whole)
    assert [row for one in parts for row in one["data"] or ()] == [row for one in whole for row in one["data"] or ()]
    assert [row for one in parts for row in one["old"] or ()] == [row for one in whole for row in one["old"] or ()]
