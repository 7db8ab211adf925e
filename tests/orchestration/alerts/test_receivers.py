"""Messages reach real receivers: a web hook, a mail server, and what apprise posts to Slack. No secret gets out."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_core.errors import ConfigError, SluiceError
from orchestration.alerts import receivers
from orchestration.alerts.incidents import APART
from orchestration.alerts.messages import Message
from orchestration.alerts.receivers import AlertNotSent, Shared, reason_in, schema_of, send
from orchestration.alerts.rules import AlertRules, ReceiverRule
from tests.support.receivers import MailServer, WebHook
from tests.support.servers import free_port

MESSAGE = Message("Sluice shop: a table is stopped", "shop.orders: <b>why</b> & *how*\n\nWhat to do: it", "failure")
TOKEN = "s3cr3t-T0KEN"
RULE = ReceiverRule(url_env="SLUICE_ALERT_URL")


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever a test does, no log of any level, of any logger, has the token."""
    caplog.set_level(logging.DEBUG)
    for name in ("urllib3", "urllib3.connectionpool", "apprise", "requests"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield
    assert not [one for one in caplog.get_records("call") if TOKEN in one.getMessage() + str(one.__dict__)]


def at(monkeypatch: pytest.MonkeyPatch, url: str) -> ReceiverRule:
    monkeypatch.setenv("SLUICE_ALERT_URL", url)
    return RULE


def refused(rule: ReceiverRule) -> SluiceError:
    """The error of a message that cannot be sent, which has no secret, nor have its causes."""
    with pytest.raises(SluiceError) as failed:
        send(rule, MESSAGE)
    assert TOKEN not in "".join(traceback.format_exception(failed.value))
    assert TOKEN not in str(failed.value.as_dict())
    return failed.value


def test_a_web_hook_gets_json(hook: WebHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Title, text and type, as they are; its path may be a secret."""
    send(at(monkeypatch, hook.url(TOKEN)), MESSAGE)

    (posted,) = hook.posted
    assert (posted["title"], posted["message"], posted["type"]) == (MESSAGE.title, MESSAGE.body, "failure")
    assert hook.paths == [f"/{TOKEN}"]


def test_a_mail_arrives(mails: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the people that the URL names, by its account, with the text whole."""
    url = f"mailto://me:{TOKEN}@127.0.0.1:{mails.port}/?from=sluice@example.org&to=a@example.org,b@example.org"
    send(at(monkeypatch, url), MESSAGE)

    assert mails.logins == [f"me:{TOKEN}"]
    assert sorted(person for people, _ in mails.mails for person in people) == ["a@example.org", "b@example.org"]
    for _, mail in mails.mails:
        body = mail.get_body(("plain", "html"))
        assert mail["Subject"] == MESSAGE.title
        assert body is not None
        assert "shop.orders" in body.get_content()
        assert "What to do: it" in body.get_content()


def test_slack_gets_its_payload(hook: WebHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """By apprise's own plugin, posted to this machine instead of hooks.slack.com."""
    from apprise.plugins.slack import NotifySlack

    monkeypatch.setattr(NotifySlack, "webhook_url", f"http://127.0.0.1:{hook.port}/services")
    send(at(monkeypatch, "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops"), MESSAGE)

    (posted,) = hook.posted
    assert hook.paths == ["/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"]
    assert posted["channel"] == "#ops"
    assert "shop.orders" in str(posted)
    assert MESSAGE.title in str(posted)


@pytest.mark.parametrize(
    ("url", "service"),
    [
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops", "Slack"),
        ("https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "Slack"),
        ("mailtos://me:pw@example.org", "E-Mail"),
        ("jsons://host/path", "JSON"),
    ],
)
def test_a_url_that_apprise_knows_is_accepted(monkeypatch: pytest.MonkeyPatch, url: str, service: str) -> None:
    """Without a call to anybody."""
    assert schema_of(at(monkeypatch, url)).startswith(service)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (f"slak://{TOKEN}/b/c", "apprise does not know the schema of the URL"),
        (f"https://example.org/{TOKEN}", "apprise does not know the schema of the URL"),
        (TOKEN, "apprise does not know the schema of the URL"),
        (f"slack://{TOKEN}", "apprise knows slack:// but not the rest of the URL"),
        (f"json://host/{TOKEN} json://other", "apprise knows json:// but not the rest of the URL"),
        ("", "no such environment variable, or it is empty"),
        ("  ", "no such environment variable, or it is empty"),
    ],
)
def test_a_wrong_url_is_told_without_it(monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
    """With the variable's name and the remedy."""
    error = refused(at(monkeypatch, url))

    assert isinstance(error, ConfigError)
    assert (error.message, error.place) == (message, "$SLUICE_ALERT_URL")
    assert error.hint


def test_a_url_may_be_in_a_file(hook: WebHook, tmp_path: Path) -> None:
    """Which is read each time, so that a new secret needs no restart."""
    file = tmp_path / "url"
    rule = ReceiverRule(url_file=str(file))
    assert refused(rule).message == "the URL cannot be read: No such file or directory"
    file.write_text("\n")
    assert refused(rule).message == "the file is empty"
    file.write_bytes(b"\xff\xfe")
    assert refused(rule).message == "the URL cannot be read: it is not text"
    file.write_text(f"{hook.url(TOKEN)}\n")
    send(rule, MESSAGE)

    assert hook.titles == [MESSAGE.title]


@pytest.mark.parametrize("status", [403, 500])
def test_a_web_hook_that_refuses_is_told_with_its_answer(
    hook: WebHook, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Without its address, which may be a secret."""
    hook.status = status
    error = refused(at(monkeypatch, hook.url(TOKEN)))

    assert isinstance(error, AlertNotSent)
    assert error.message == f"the message was not taken: the answer was {status}"


def test_nobody_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web hook and a mail server that are away."""
    for url in (
        f"json://127.0.0.1:{free_port()}/{TOKEN}",
        f"mailto://me:{TOKEN}@127.0.0.1:{free_port()}/?from=s@b.org&to=a@b.org",
    ):
        assert refused(at(monkeypatch, url)).message == "the message was not taken: connection refused"


def test_a_wrong_password_is_told_with_the_servers_code(mails: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's words are not repeated."""
    mails.refuses = True
    error = refused(at(monkeypatch, f"mailto://me:{TOKEN}@127.0.0.1:{mails.port}/?from=s@b.org&to=a@example.org"))

    assert error.message == "the message was not taken: the answer was 535"


def test_a_message_that_is_too_long_for_a_service_is_cut(hook: WebHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would refuse it, and all that comes later; unless the URL says what else to do."""
    from apprise.plugins.custom_json import NotifyJSON

    monkeypatch.setattr(NotifyJSON, "body_maxlen", 100)
    long = replace(MESSAGE, body="why " * 100)
    send(at(monkeypatch, hook.url()), long)
    assert [len(one["message"]) <= 100 for one in hook.posted] == [True]
    assert hook.posted[0]["message"].startswith("why why")
    send(at(monkeypatch, f"{hook.url()}?overflow=split"), long)
    assert len(hook.posted) > 3


def test_a_receiver_that_hangs_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts the connection and says nothing."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        rule = at(monkeypatch, f"json://127.0.0.1:{silent.getsockname()[1]}/{TOKEN}")
        with pytest.raises(AlertNotSent, match="was not taken"):
            send(rule, MESSAGE, seconds=0.5)


def test_a_reason_is_of_a_fixed_list() -> None:
    """Whatever else a plugin logs."""
    assert reason_in([f"Failed to send JSON notification: {TOKEN}, error=404."]) == "the answer was 404"
    assert reason_in([f"Socket Exception: <{TOKEN}> [Errno 111] Connection refused"]) == "connection refused"
    assert reason_in([TOKEN]) == "apprise could not send it"


def test_what_several_destinations_say_is_sent_once(hook: WebHook, monkeypatch: pytest.MonkeyPatch) -> None:
    """To each receiver, within some minutes; what failed is tried again half a minute later, by whoever comes."""
    moment, rule = [0.0], at(monkeypatch, hook.url())
    shared = Shared(lambda: moment[0])
    away = Message("the service is away", "x", "failure", "service+ http://s")
    hook.status = 500
    for _ in range(3):
        with pytest.raises(AlertNotSent):
            shared.send(rule, away)
    assert hook.asked == 1
    moment[0], hook.status = 30.0, 200
    for _ in range(3):
        shared.send(rule, away)
        shared.send(rule, MESSAGE)
    assert hook.titles.count("the service is away") == 1
    assert hook.titles.count(MESSAGE.title) == 3

    moment[0] += APART
    shared.send(rule, away)
    shared.send(at(monkeypatch, hook.url("other")), away)
    assert hook.titles.count("the service is away") == 3


def test_a_receiver_that_hangs_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it get one message of two destinations at a time."""
    away = Message("the service is away", "x", "failure", "service+ http://s")
    begun, goes_on, sent = threading.Event(), threading.Event(), list[str]()

    def slowly(rule: ReceiverRule, _message: Message) -> None:
        if rule.name == "$SLUICE_SLOW":
            begun.set()
            assert goes_on.wait(30)
        sent.append(rule.name)

    monkeypatch.setattr(receivers, "send", slowly)
    monkeypatch.setenv("SLUICE_SLOW", "json://slow")
    monkeypatch.setenv("SLUICE_QUICK", "json://quick")
    shared, slow = Shared(), ReceiverRule(url_env="SLUICE_SLOW")
    with ThreadPoolExecutor(2) as threads:
        first, second = (threads.submit(shared.send, slow, away) for _ in range(2))
        assert begun.wait(30)
        other = threading.Thread(target=shared.send, args=(ReceiverRule(url_env="SLUICE_QUICK"), away), daemon=True)
        other.start()
        other.join(10)
        assert sent == ["$SLUICE_QUICK"]
        goes_on.set()
        assert (first.result(30), second.result(30)) == (None, None)
    assert sent == ["$SLUICE_QUICK", "$SLUICE_SLOW"]


def test_other_calls_of_the_same_client_are_logged_as_before(
    hook: WebHook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only what is said while a message is sent is dropped."""
    import requests

    send(at(monkeypatch, hook.url(TOKEN)), MESSAGE)
    requests.post(f"http://127.0.0.1:{hook.port}/seen", json={"title": ""}, timeout=5)

    assert "/seen" in caplog.text


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({}, "give url_env"),
        ({"url_env": "A", "url_file": "/a"}, "give url_env"),
        ({"url_env": f"slack://{TOKEN}"}, "is not the name of an environment variable"),
        ({"url_file": f"slack://{TOKEN}"}, "not the absolute path"),
        ({"url_file": "secret"}, "not the absolute path"),
    ],
)
def test_a_receiver_is_named_in_one_way(rule: dict[str, str], message: str) -> None:
    """By a variable or by a file; a URL has no place in defs.yaml."""
    with pytest.raises(ValueError, match=message):
        ReceiverRule(**rule)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"to": []}, "is empty"),
        ({"to": [{"url_env": "A"}, {"url_env": "A"}]}, "twice"),
        ({"lag": "soon"}, "is not a time"),
        ({"lag": "0s"}, "is not a time"),
        ({"binlog": "1w"}, "is not a time"),
        ({"failures": 0}, "at least 1"),
        ({"dagster": "dagster.example.org"}, "not an http URL"),
        ({"kinds": ["moon"]}, "kinds"),
        ({"repeat": "1h"}, "repeat"),
    ],
)
def test_wrong_rules_are_refused(rules: dict[str, object], message: str) -> None:
    """When the file is read."""
    with pytest.raises(ValueError, match=message):
        AlertRules.model_validate({"to": [{"url_env": "A"}], **rules})


def test_a_receivers_kinds_take_the_place_of_the_destinations() -> None:
    """Warnings are told where they are named alone."""
    rules = AlertRules.model_validate({"to": [{"url_env": "A"}, {"url_env": "B", "kinds": ["lag", "warnings"]}]})

    assert [sorted(rules.of(rule)) for rule in rules.to] == [
        ["binlog", "blocked", "checks", "destination", "lag", "quarantined", "runs", "service", "stopped"],
        ["lag", "warnings"],
    ]
    assert "warnings" in rules.chosen
