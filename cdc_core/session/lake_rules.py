"""The rules of the lakes that clients write, kept with their cursors: what a lake sees of the source's tables.

They are kept as they were given. The salts that they name are read from the environment when they are applied.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from cdc_core.meta.cursors import Cursors
from cdc_core.rules.rules import Rules, fingerprint_of, salted


class LakeRules:
    """`writing` surrounds each write of a node."""

    def __init__(self, cursors: Cursors, writing: Callable[[], AbstractContextManager[None]]) -> None:
        self._cursors, self._writing = cursors, writing
        self._of: dict[int, str] = {}

    def load(self, client_id: int) -> None:
        self._of[client_id] = self._cursors.rules(client_id)

    def text(self, client_id: int) -> str:
        """The client's rules as JSON; empty without any."""
        return self._of.get(client_id, "")

    def fingerprint(self, client_id: int) -> str:
        """That of the client's rules; empty without any."""
        return fingerprint_of(self.text(client_id))

    def of(self, client_id: int) -> Rules:
        """The client's rules with their salts. Raises ConfigError where they cannot be applied."""
        return salted(self.text(client_id))

    def set(self, client_id: int, text: str) -> None:
        """Kept when this returns; they count from the next claim on. Raises ConfigError for rules that cannot be
        applied."""
        rules = salted(text)
        text = rules.to_json() if rules else ""
        with self._writing():
            if text != self.text(client_id):
                self._cursors.set_rules(client_id, text)
                self._of[client_id] = text
