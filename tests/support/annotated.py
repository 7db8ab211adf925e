"""Blocks after the annotate stage, as slices with their table definitions."""

from __future__ import annotations

from cdc_core.binlog.block import Block, BlockSlice
from cdc_core.schema.information_schema import complete
from cdc_core.schema.registry import SchemaRegistry
from cdc_core.stream.annotate import Annotator
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import Log, block


def annotated(server: MySqlServer, block: Block) -> tuple[list[BlockSlice], SchemaRegistry]:
    """The block of a real server as one slice, its definitions completed from the catalogue."""
    registry = SchemaRegistry()
    accept = Annotator(
        registry, lambda schema, _: complete(schema, server.connect), lambda database, _: database != "mysql"
    )
    accept.annotate(block)
    return [BlockSlice(block, 0, len(block.index))], registry


def slices_of(log: Log, cuts: int = 1) -> tuple[list[BlockSlice], SchemaRegistry]:
    """The log, annotated and cut into so many blocks."""
    registry = SchemaRegistry()
    annotator = Annotator(registry, lambda schema, _: schema, lambda *_: True)
    size = max(1, len(log.events) // cuts)
    blocks = [block(log.events[at : at + size]) for at in range(0, len(log.events), size)]
    for one in blocks:
        annotator.annotate(one)
    return [BlockSlice(one, 0, len(one.index)) for one in blocks], registry
