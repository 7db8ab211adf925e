"""`sluice alert`: where the alerts of a destination go, and a message that shows whether they arrive."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cdc_core.errors import SluiceError
from orchestration.cli import app
from orchestration.stack.defs import write_component
from tests.support.receivers import MailServer, WebHook

TOKEN = "s3cr3t-T0KEN"


@pytest.fixture
def defs(tmp_path: Path) -> Path:
    """A folder of two destinations, of which one has alerts; its lake is named by the environment."""
    to = [{"url_env": "SLUICE_ALERT_HOOK"}, {"url_file": str(tmp_path / "mail"), "kinds": ["service", "lag"]}]
    shop = {"destination": "shop", "lake": "{{ env.SLUICE_TEST_LAKE }}", "alerts": {"to": to}}
    write_component(tmp_path / "defs" / "shop" / "defs.yaml", shop)
    write_component(tmp_path / "defs" / "other" / "defs.yaml", {"destination": "other", "lake": "/lake"})
    return tmp_path / "defs"


def alert(*arguments: str, hook: str = "json://host") -> Result:
    """`sluice alert`, whose output never has a secret."""
    variables = {"SLUICE_ALERT_HOOK": hook, "SLUICE_TEST_LAKE": "/lake", "COLUMNS": "160"}
    done = CliRunner().invoke(app, ["alert", *arguments], env=variables)
    error = done.exception
    text = "".join(traceback.format_exception(error)) if isinstance(error, SluiceError) else ""
    assert TOKEN not in done.output + text
    return done


def failed(done: Result) -> SluiceError:
    assert isinstance(done.exception, SluiceError)
    return done.exception


def test_a_test_message_reaches_each_receiver(defs: Path, hook: WebHook, mails: MailServer) -> None:
    """A web hook and a mailbox, with the kinds that each is told."""
    url = f"mailto://me:{TOKEN}@127.0.0.1:{mails.port}/?from=s@example.org&to=a@example.org"
    (defs.parent / "mail").write_text(url)

    done = alert("shop", "--defs", str(defs), "--test", "--json", hook=hook.url(TOKEN))

    assert done.exit_code == 0, done.output
    found = {one["receiver"]: one for one in json.loads(done.stdout)}
    assert [(one["service"], one["sent"], one["error"]) for one in found.values()] == [
        ("JSON", True, ""),
        ("E-Mail", True, ""),
    ]
    assert found[str(defs.parent / "mail")]["kinds"] == ["lag", "service"]
    assert hook.titles == ["Sluice shop: a test"]
    assert [mail["Subject"] for _, mail in mails.mails] == ["Sluice shop: a test"]


def test_a_receiver_that_takes_nothing_is_exit_code_1(defs: Path, hook: WebHook) -> None:
    """With the reason; the others get theirs. Without --test nothing is sent."""
    (defs.parent / "mail").write_text(f"slak://{TOKEN}")
    hook.status = 404
    done = alert("shop", "--defs", str(defs / "shop" / "defs.yaml"), "--test", hook=hook.url(TOKEN))
    assert done.exit_code == 1
    assert "the message was not taken: the answer was 404 at $SLUICE_ALERT_HOOK" in done.stdout
    assert "apprise does not know the schema of the URL" in done.stdout

    (defs.parent / "mail").write_text("json://host")
    hook.asked = 0
    done = alert("shop", "--defs", str(defs), hook=hook.url(TOKEN))
    assert (done.exit_code, hook.asked) == (0, 0)
    assert done.stdout.count("not tried") == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [("other", "there are no alerts"), ("none", "no defs.yaml has client 1001 of destination none")],
)
def test_a_destination_without_alerts_is_an_error(defs: Path, name: str, message: str) -> None:
    """With what to add, or to correct."""
    error = failed(alert(name, "--defs", str(defs)))

    assert error.message == message
    assert error.hint


@pytest.mark.parametrize("to", [[{"url": f"slack://{TOKEN}"}], f"slack://{TOKEN}", [{"url_env": f"slack://{TOKEN}"}]])
def test_a_url_in_the_file_itself_is_refused_without_it(tmp_path: Path, to: object) -> None:
    """With the file, and the key."""
    file = tmp_path / "shop" / "defs.yaml"
    write_component(file, {"destination": "shop", "lake": "/lake", "alerts": {"to": to}})

    error = failed(alert("shop", "--defs", str(file)))

    assert "alerts.to" in error.message
    assert str(file) in error.place
