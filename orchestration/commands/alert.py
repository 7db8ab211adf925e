"""`sluice alert`: where the alerts of a destination go, and whether a message arrives there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from cdc_core.errors import ConfigError, SluiceError
from orchestration.alerts.messages import test_message
from orchestration.alerts.receivers import schema_of, send
from orchestration.alerts.rules import AlertRules, ReceiverRule
from orchestration.commands.text import table, text
from orchestration.settings import Settings


@dataclass(frozen=True, slots=True)
class Reached:
    """A receiver, and how far a test came: `sent`, or only looked at. `error` is "" where nothing is wrong."""

    receiver: str
    service: str
    kinds: tuple[str, ...]
    sent: bool
    error: str = ""


def run(settings: Settings, *, test: bool, as_json: bool) -> int:
    """Prints a line for each receiver. Returns 1 when one has a wrong URL or did not take the message. Raises
    ConfigError for a destination without alerts."""
    if settings.alerts is None:
        hint = "Add `alerts` to its defs.yaml; docs/alerts.md."
        raise ConfigError("there are no alerts", place=settings.destination, hint=hint)
    found = [reached(settings.destination, settings.alerts, rule, test=test) for rule in settings.alerts.to]
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
    else:
        _show(found)
    return 1 if any(one.error for one in found) else 0


def reached(destination: str, rules: AlertRules, rule: ReceiverRule, *, test: bool) -> Reached:
    """Looks at a receiver's URL, and sends a message there for a `test`."""
    kinds = tuple(sorted(rules.of(rule)))
    service = ""
    try:
        service = schema_of(rule)
        if test:
            send(rule, test_message(destination, kinds))
    except SluiceError as error:
        return Reached(rule.name, service, kinds, sent=False, error=str(error))
    return Reached(rule.name, service, kinds, sent=test)


def _show(found: list[Reached]) -> None:
    console = Console()
    columns = table(text("receiver"), text("service"), text("kinds"), text(""))
    for one in found:
        done = "wrong" if one.error else "took the message" if one.sent else "not tried"
        columns.add_row(one.receiver, one.service or "-", ", ".join(one.kinds), Text(done, "red" if one.error else ""))
    console.print(columns)
    for one in found:
        if one.error:
            console.print(Text.assemble((one.receiver, "red"), f": {one.error}"), soft_wrap=True)
