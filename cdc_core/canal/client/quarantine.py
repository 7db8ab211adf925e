"""Batches that a handler could not take, kept in a file so that nothing is lost: a JSON line for each.

A line has the batch's id, its first and last place in the binlog, the error, and the entries in base64, from which
`read` makes the message again.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path

from cdc_core.canal.client.events import Message
from cdc_core.errors import ConfigError
from cdc_core.files import private


class Quarantine:
    """A file that is appended to. A batch is on disk when `keep` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<Quarantine {self.path}>"

    def keep(self, message: Message, error: Exception) -> None:
        """Raises ConfigError when the file cannot be written."""
        places = [event.header.place for event in message.events()]
        line = {
            "batch_id": message.id,
            "from": places[0] if places else "",
            "to": places[-1] if places else "",
            "error": f"{type(error).__name__}: {error}",
            "entries": [base64.b64encode(entry).decode() for entry in message.entries],
        }
        try:
            with open(self.path, "a", encoding="utf-8", opener=private) as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as failure:
            raise ConfigError(
                f"the quarantine cannot be written: {failure.strerror}",
                place=str(self.path),
                hint="Make room, or name another file; the batch was not acked and comes again.",
            ) from failure

    def read(self) -> Iterator[tuple[Message, str]]:
        """The batches that are kept, each with its error."""
        for text in self.path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            entries = tuple(base64.b64decode(entry) for entry in line["entries"])
            yield Message(line["batch_id"], entries), line["error"]
