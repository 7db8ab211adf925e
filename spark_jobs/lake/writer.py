"""The writer of a destination's tables in a lake: one service, by one client.

Two clients, or two services with a destination of the same name, would each apply every change. The lake notes the
first writer in the properties of an empty Delta table, before that writer's first batch, and refuses every other. A
service keeps its identity with its cursors: it stays the same over failovers, resets and moves to other hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType

from cdc_core.errors import LakeError
from spark_jobs.lake.failures import first_line
from spark_jobs.lake.own_tables import open_own
from spark_jobs.lake.probe import probe
from spark_jobs.lake.tables import Lake

_IDENTITY, _CLIENT = "sluice.identity", "sluice.client"


@dataclass(frozen=True, slots=True)
class Writer:
    """The identity of a destination at its service, and the client that fills the lake."""

    identity: str
    client_id: int


def check_writer(lake: Lake, destination: str, writer: Writer, take_over: str) -> None:
    """Notes the lake's writer if it has none yet. `take_over` is the command by which the service replaces another one,
    up to the identity.

    Raises LakeError when the lake has another writer, or lies in a store that loses commits.
    """
    path = lake.writer_path(destination)
    try:
        noted = _noted(lake, path)
        if noted is None:
            if not lake.is_local:
                probe(lake)
            noted = _note(lake, path, writer)
    except (DeltaError, OSError) as error:
        hint = "Make the lake writable and give it room; the batch stays claimable."
        raise LakeError(f"the lake's writer cannot be noted: {first_line(error)}", place=path, hint=hint) from error
    if noted.identity != writer.identity:
        raise LakeError(
            f"another service writes this lake: destination {destination!r} with identity {noted.identity}; "
            f"this one has identity {writer.identity}",
            place=path,
            hint="Name another lake for one of the two. If this service takes the other's place, or lost its cursors: "
            f"{take_over} --identity {noted.identity} --yes.",
        )
    if noted.client_id != writer.client_id:
        raise LakeError(
            f"client {noted.client_id} writes this lake, not client {writer.client_id}",
            place=path,
            hint=f"Set client_id to {noted.client_id} in defs.yaml, or name another lake: both would apply all.",
        )


def _noted(lake: Lake, path: str) -> Writer | None:
    table = open_own(lake, path, "the note of the lake's writer", "it keeps other services out of the lake")
    if table is None:
        return None
    properties = table.metadata().configuration
    return Writer(properties[_IDENTITY], int(properties[_CLIENT]))


def _note(lake: Lake, path: str, writer: Writer) -> Writer:
    """Notes the writer, and returns the lake's writer: of two that are noted at the same time, the first."""
    schema = Schema([Field("note", PrimitiveType("string"))])
    try:
        DeltaTable.create(
            path,
            schema,
            configuration={_IDENTITY: writer.identity, _CLIENT: str(writer.client_id)},
            storage_options=lake.storage or None,
            raise_if_key_not_exists=False,
        )
    except DeltaError:
        if (first := _noted(lake, path)) is None:
            raise
        return first
    return writer
