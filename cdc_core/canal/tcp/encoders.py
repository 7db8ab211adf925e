"""The encoders of the clients' entries: one for each capture, client and filter.

An encoder knows the tables that it has met. Its kernels are loaded with the first call: without them the service
connects to its sources sooner.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from cdc_core.canal.entries.options import Options
from cdc_core.destination.service import CanalService
from cdc_core.stream.filter import make_filter

if TYPE_CHECKING:
    from cdc_core.canal.entries.encode import Encoder
    from cdc_core.canal.entries.room import Rooms

_KEPT = 64


class Encoders:
    """Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, str], Encoder] = OrderedDict()
        self._rooms: Rooms | None = None

    def __repr__(self) -> str:
        return f"<Encoders {len(self._kept)}>"

    def of(self, service: CanalService, client_id: int) -> Encoder:
        """The encoder of a client's claims."""
        from cdc_core.canal.entries.encode import Encoder
        from cdc_core.canal.entries.room import Rooms

        own = service.filter_of(client_id)
        key = (id(service.registry), client_id, own)
        with self._lock:
            found = self._kept.get(key)
            if found is None or found.registry is not service.registry:  # of a capture that is gone
                self._rooms = self._rooms or Rooms()
                made = options(service, own)
                found = self._kept[key] = Encoder(service.registry, service.ddl, made, self._rooms)
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return found


def options(service: CanalService, own: str) -> Options:
    """What the destination's configuration and the client's own filter leave out."""
    config = service.config
    return Options(
        wanted=make_filter(own) if own else (lambda _database, _table: True),
        fields=config.filter_field,
        black_fields=config.filter_black_field,
        gtid=config.gtid_mode,
        ddl_by_table=config.ddl_entries == "table",
        query_dcl=config.filter_query_dcl,
        query_dml=config.filter_query_dml,
        query_ddl=config.filter_query_ddl,
        rows=config.filter_rows,
        table_error=config.filter_table_error,
        transaction_entry=config.filter_transaction_entry,
        dml_insert=config.filter_dml_insert,
        dml_update=config.filter_dml_update,
        dml_delete=config.filter_dml_delete,
    )
