"""Sends messages by apprise, which is imported when there is something to check or to send.

The URL of a receiver is a secret: it is read where it is used, is in no value, and neither it nor what apprise logs is
in an error. An error says what apprise's words about the failure have in common with a fixed list.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cdc_core.errors import ConfigError, SluiceError
from cdc_core.packages import required
from orchestration.alerts.incidents import APART
from orchestration.alerts.messages import Message

if TYPE_CHECKING:
    from apprise import Apprise

_SECONDS = 15.0  # for one message; a tick of Dagster's ends after 60
_SHARED_SECONDS = 0.8 * APART  # for which a message that several destinations have to say counts as said
_FAILED_SECONDS = 25.0  # for which one of them that was not taken is not tried again: less than a first pause
_LARGEST = 65_536  # bytes of a file with a URL
_FORMS = "a web hook is json://HOST/PATH or jsons://, e-mail mailto://, Slack slack://; docs/alerts.md has more"
_KNOWN = (
    r"Connection refused",
    r"Network is unreachable",
    r"No route to host",
    r"Name or service not known",
    r"Temporary failure in name resolution",
    r"timed out",
    r"certificate verify failed",
    r"Connection reset by peer",
    r"Remote end closed connection",
    r"Connection unexpectedly closed",
)
_OVERFLOW = re.compile(r"[?&]overflow=", re.IGNORECASE)
_STATUS = re.compile(r"error=(\d{3})\b|Exception: \((\d{3}),")
_LOGGERS = ("apprise", "urllib3.connectionpool")
_words: ContextVar[list[str] | None] = ContextVar("what is logged while a message is sent", default=None)


class Receiver(Protocol):
    """What has the URL: an environment variable, or a file. `name` is for people."""

    @property
    def url_env(self) -> str: ...

    @property
    def url_file(self) -> str: ...

    @property
    def name(self) -> str: ...


class AlertNotSent(SluiceError):
    """A receiver did not take a message. Place: the receiver's name. It is tried again."""


def url_of(rule: Receiver) -> str:
    """Returns the receiver's URL. Raises ConfigError, without it."""
    if rule.url_env:
        found = os.environ.get(rule.url_env, "").strip()
        if not found:
            hint = "Set it where Dagster's code location or the monitor runs (with `sluice up`: where that is started)."
            raise ConfigError("no such environment variable, or it is empty", place=rule.name, hint=hint)
        return found
    try:
        with Path(rule.url_file).open("rb") as file:
            found = file.read(_LARGEST).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = (isinstance(error, OSError) and error.strerror) or "it is not text"
        hint = "Write the receiver's URL into the file, and let the account of Dagster or of the monitor read it."
        raise ConfigError(f"the URL cannot be read: {why}", place=rule.name, hint=hint) from None
    if not found:
        raise ConfigError("the file is empty", place=rule.name, hint="Write the receiver's URL into it.")
    return found


def opened(rule: Receiver) -> Apprise:
    """Returns apprise with this receiver alone. Raises ConfigError, without the URL, if it is not one."""
    apprise = required("apprise", rule.name)
    url = url_of(rule)
    asset = apprise.AppriseAsset(
        app_id="Sluice", app_desc="Sluice", image_url_mask="", image_url_logo="", storage_mode="memory"
    )
    with _quiet():
        try:
            plugin = None if re.search(r"\s", url) else apprise.Apprise.instantiate(url, asset=asset)
        except Exception:  # of any plugin; its words may hold the URL
            plugin = None
        found: Apprise = apprise.Apprise(asset=asset)
        if plugin is None or not found.add(plugin):
            raise _wrong(rule, url)
    if not _OVERFLOW.search(url):  # a service refuses what is too long for it, each time that it is tried again
        plugin.overflow_mode = apprise.OverflowMode.TRUNCATE
    return found


def schema_of(rule: Receiver) -> str:
    """Returns what apprise calls the service, `Slack` for example. Raises ConfigError."""
    (plugin,) = opened(rule)
    return str(plugin.service_name)


def _wrong(rule: Receiver, url: str) -> ConfigError:
    from apprise.manager_plugins import NotificationManager

    schema = url.partition("://")[0].lower() if "://" in url else ""
    if schema in NotificationManager():  # type: ignore[no-untyped-call]
        message = f"apprise knows {schema}:// but not the rest of the URL"
    else:
        message = "apprise does not know the schema of the URL"
    return ConfigError(message, place=rule.name, hint=f"Correct it: {_FORMS}.")


def send(rule: Receiver, message: Message, seconds: float = _SECONDS) -> None:
    """Sends the message. Raises ConfigError, and AlertNotSent if the receiver did not take it."""
    found = opened(rule)
    apprise = required("apprise", rule.name)
    with _quiet() as words:
        try:
            sent = found.notify(
                body=message.body,
                title=message.title,
                notify_type=apprise.NotifyType(message.level),
                body_format=apprise.NotifyFormat.TEXT,
                timeout=seconds,
            )
        except Exception as error:  # of any plugin; its words may hold the URL
            sent = None
            words.append(type(error).__name__)
    if not sent:
        hint = "Look whether it is reachable from this host and takes messages; `sluice alert --test` tries it."
        raise AlertNotSent(f"the message was not taken: {reason_in(words)}", place=rule.name, hint=hint)


def reason_in(words: Sequence[str]) -> str:
    """Returns why a message was not taken, as far as it is known without a risk: what receivers log holds secrets."""
    text = "\n".join(words)
    if found := _STATUS.search(text):
        return f"the answer was {found[1] or found[2]}"
    for known in _KNOWN:
        if found := re.search(known, text, re.IGNORECASE):
            return found[0].lower()
    return "apprise could not send it"


@dataclass(slots=True)
class Shared:
    """The messages of this process that several destinations have to say, and when each receiver got them."""

    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)  # of the messages: one that hangs holds up its own
    _sent: dict[str, float] = field(default_factory=dict)
    _failed: dict[str, tuple[float, AlertNotSent]] = field(default_factory=dict)

    def send(self, rule: Receiver, message: Message) -> None:
        """Sends the message, unless another destination has sent it. Raises ConfigError, AlertNotSent; at once if
        another destination has just failed."""
        if not message.shared:
            send(rule, message)
            return
        key = hashlib.sha256(f"{url_of(rule)}\n{message.shared}".encode()).hexdigest()
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if self._is_sent(key):
                return
            now = self.clock()
            try:
                send(rule, message)
            except AlertNotSent as error:
                with self._lock:
                    self._failed[key] = self.clock(), error
                raise
            with self._lock:
                self._sent[key] = now

    def _is_sent(self, key: str) -> bool:
        """Whether another destination has sent the message. Raises AlertNotSent if it has just failed."""
        with self._lock:
            now = self.clock()
            self._sent = {one: at for one, at in self._sent.items() if now - at < _SHARED_SECONDS}
            self._failed = {one: its for one, its in self._failed.items() if now - its[0] < _FAILED_SECONDS}
            if key not in self._sent and key in self._failed:
                raise self._failed[key][1].with_traceback(None)
            return key in self._sent


SHARED = Shared()
SENDING = threading.BoundedSemaphore(2)
"""How many messages of this process are sent at a time: Dagster's daemon has four threads for the ticks of all sensors,
and those that start runs need some while a receiver hangs."""


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """Yields what apprise and HTTP's client log of the block, which no log gets: a path may be a secret."""
    words = list[str]()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if _passes not in logger.filters:
            logger.addFilter(_passes)
    logging.getLogger(_LOGGERS[0]).setLevel(logging.DEBUG)  # the reason of a failure is there alone
    reset = _words.set(words)  # apprise's threads have it too
    try:
        yield words
    finally:
        _words.reset(reset)


def _passes(record: logging.LogRecord) -> bool:
    """Keeps a record of `_quiet` from every log; of apprise's others, what is no warning."""
    words = _words.get()
    if words is not None:
        words.append(record.getMessage())
        return False
    return record.name != _LOGGERS[0] or record.levelno >= logging.WARNING
