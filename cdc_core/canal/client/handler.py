"""The base class for a consumer's handler of events. A program overrides the methods for the kinds that it needs."""

from __future__ import annotations

from cdc_core.canal.client.events import Boundary, Change, Event, Row, Rows, Statement
from cdc_core.canal.entries.kinds import CanalEventType


class Handler:
    """Every method does nothing here. An exception means that the batch is not done: it is handed out again from its
    beginning, so what a handler does must bear a repetition."""

    def on_transaction_begin(self, boundary: Boundary) -> None:
        pass

    def on_transaction_end(self, boundary: Boundary) -> None:
        pass

    def on_insert(self, row: Row) -> None:
        pass

    def on_update(self, row: Row) -> None:
        pass

    def on_delete(self, row: Row) -> None:
        pass

    def on_create_table(self, statement: Statement) -> None:
        pass

    def on_alter_table(self, statement: Statement) -> None:
        pass

    def on_drop_table(self, statement: Statement) -> None:
        pass

    def on_truncate(self, statement: Statement) -> None:
        pass

    def on_rename(self, statement: Statement) -> None:
        pass

    def on_create_index(self, statement: Statement) -> None:
        pass

    def on_delete_index(self, statement: Statement) -> None:
        pass

    def on_other(self, event: Event) -> None:
        """A statement of any other kind."""

    def on_batch_end(self, batch_id: int) -> None:
        """Before the batch is acked: what was gathered is to be safe when this returns."""

    def on_change(self, change: Change) -> None:
        """The rows of an entry together, a statement or a boundary; here each row is handled alone."""
        for event in change.each() if isinstance(change, Rows) else (change,):
            self.handle(event)

    def handle(self, event: Event) -> None:
        """Calls the method of the event's kind."""
        match event:
            case Boundary(begins=True):
                self.on_transaction_begin(event)
            case Boundary():
                self.on_transaction_end(event)
            case Row(kind=CanalEventType.INSERT):
                self.on_insert(event)
            case Row(kind=CanalEventType.UPDATE):
                self.on_update(event)
            case Row():
                self.on_delete(event)
            case Statement(kind=CanalEventType.CREATE):
                self.on_create_table(event)
            case Statement(kind=CanalEventType.ALTER):
                self.on_alter_table(event)
            case Statement(kind=CanalEventType.ERASE):
                self.on_drop_table(event)
            case Statement(kind=CanalEventType.TRUNCATE):
                self.on_truncate(event)
            case Statement(kind=CanalEventType.RENAME):
                self.on_rename(event)
            case Statement(kind=CanalEventType.CINDEX):
                self.on_create_index(event)
            case Statement(kind=CanalEventType.DINDEX):
                self.on_delete_index(event)
            case _:
                self.on_other(event)
