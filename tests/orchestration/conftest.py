"""Receivers of alerts, for tests of what is sent and of the command that sends it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.receivers import MailServer, WebHook, mail_server, web_hook


@pytest.fixture
def hook() -> Iterator[WebHook]:
    with web_hook() as there:
        yield there


@pytest.fixture
def mails() -> Iterator[MailServer]:
    with mail_server() as there:
        yield there
