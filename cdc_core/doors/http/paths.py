"""Paths and path parameters of the `/v1` calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.convertors import StringConvertor, register_url_convertor


class _NameConvertor(StringConvertor):
    """The rest of the path, whatever characters it has: a table's name may have slashes and ends of lines."""

    regex = r"[\s\S]+"


register_url_convertor("name", _NameConvertor())

DESTINATION = "/destinations/{destination}"
CLIENT = DESTINATION + "/clients/{client_id}"
BATCH = CLIENT + "/claims/{batch_id}"
STOPPED = CLIENT + "/stopped/{table:name}"
QUARANTINED = CLIENT + "/quarantined"
BLOCKED_LOGS = CLIENT + "/blocked"
SNAPSHOT = CLIENT + "/snapshots/{table:name}"

ClientId = Annotated[int, Path(ge=0, description="Canal's client id", examples=[1001])]
BatchId = Annotated[int, Path(ge=0, examples=[7])]
Table = Annotated[str, Path(description="`database.table`", examples=["shop.orders"])]
