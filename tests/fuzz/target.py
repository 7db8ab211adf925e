"""The target of the coverage-guided fuzzer: bytes taken as a block of events, or as packets after a sound opening.

The first byte says which. Anything other than sound batches or a SluiceError with its place is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from cdc_core.binlog.events import HEADER
from cdc_core.binlog.gtid_events import last_gtid
from cdc_core.errors import SluiceError
from cdc_core.stream.annotate import Annotator
from cdc_core.stream.expand import expand
from tests.fixtures.captured import NAMES, Captured, captured
from tests.support.binlog_files import block, whole
from tests.support.binlog_stream import packets
from tests.support.damage import groups, stream
from tests.support.decoding import JOURNAL, Decoded
from tests.support.fuzzing import lines, outcome, told

EVENTS, STREAM = b"\0", b"\1"
_PLAIN = "mysql8_minimal"  # without checksums, which no fuzzer gets right


def attempt(data: bytes) -> list[str]:
    """What the decoder makes of the bytes, as in `fuzzing.outcome`."""
    if data[:1] == STREAM:
        log = captured(_PLAIN)
        opening = packets([log.events[0]])
        return outcome(opening + data[1:], log)
    try:
        found = _decoded(list(_events(data[1:])))
    except SluiceError as error:
        return [told(error)]
    return list(lines(found))


def _events(data: bytes) -> Iterator[bytes]:
    """Events as long as their headers say; the last has what is left."""
    while len(data) >= HEADER:
        size = max(HEADER, int.from_bytes(data[9:13], "little"))
        yield data[:9] + min(size, len(data)).to_bytes(4, "little") + data[13:size]
        data = data[size:]


def _decoded(events: list[bytes]) -> Decoded:
    found, ends = Decoded(), [4]
    for event in events:
        ends.append(ends[-1] + len(event))
    annotator = Annotator(found.registry, lambda schema, _: schema, lambda *_: True)
    for piece in expand(block(list(zip(ends[1:], events, strict=True)), JOURNAL)):
        annotator.annotate(piece)
        found.blocks.append(piece)
        last_gtid(whole(piece))
    return found


def seeds() -> Iterator[bytes]:
    """Each captured transaction, both ways."""
    for name in NAMES:
        for group in groups(captured(name))[1:]:
            yield EVENTS + b"".join(event[:9] + len(event).to_bytes(4, "little") + event[13:] for event in group)
    log: Captured = captured(_PLAIN)
    for group in groups(log)[1:]:
        opening = packets([log.events[0]])
        yield STREAM + stream(group, checksum=False, opening=log.events[0])[len(opening) :]
