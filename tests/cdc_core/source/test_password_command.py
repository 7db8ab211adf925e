"""The command that prints the source's password: how it is run, for how long its word counts, and what is not shown."""

from __future__ import annotations

import pickle
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from cdc_core.config.models import InstanceConfig
from cdc_core.errors import ConfigError, SluiceError, SourceUnavailable
from cdc_core.source.password_command import PasswordCommand, with_password
from cdc_core.source.settings import SourceSettings, source_settings

SECRET = "t0ken"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Makes a program of a shell script's lines."""

    def make(lines: str) -> Path:
        path = tmp_path / "token"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


def settings(*words: str, seconds: float = 600.0, longest: float = 30.0, host: str = "db") -> SourceSettings:
    return SourceSettings(host, 3306, "sluice", "given", password_command=PasswordCommand(words, seconds, longest))


def used(account: SourceSettings, clock: Callable[[], float] = time.monotonic) -> str:
    return with_password(account, lambda password: password, clock)


def test_without_a_command_the_given_password_counts() -> None:
    """As ever."""
    assert used(SourceSettings("db", 3306, "sluice", "given")) == "given"


def test_no_shell_sees_it(script: Callable[[str], Path]) -> None:
    """Words are as the key quotes them; host, port and account are filled in. Only the last newline goes."""
    path = script("printf '%s|' \"$@\"; echo; echo")
    text = f"{path} '$HOME;x' --to={{host}}:{{port}} {{user}} \"a b\""
    config = InstanceConfig.model_validate(
        {
            "canal.instance.destination": "shop",
            "canal.instance.master.address": "db:3307",
            "canal.instance.dbUsername": "sluice",
            "sluice.source.password.command": text,
            "sluice.source.password.seconds": "5",
        }
    )
    found = source_settings(config)
    assert used(found) == "$HOME;x|--to=db:3307|sluice|a b|\n"
    assert used(source_settings(config, "other:1")) == "$HOME;x|--to=other:1|sluice|a b|\n"
    assert found.password_command is not None
    assert found.password_command.seconds == 5
    assert not any("HOME" in repr(one) for one in (config, found, found.password_command))
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_line_that_is_none_is_refused_by_its_key() -> None:
    """When the file is read."""
    with pytest.raises(ValueError, match="No closing quotation"):
        InstanceConfig.model_validate(
            {"canal.instance.destination": "shop", "sluice.source.password.command": "aws 'rds"}
        )


def test_it_is_asked_once_in_its_time(script: Callable[[str], Path], tmp_path: Path) -> None:
    """All connections of a process share what it said, side by side too; each server has its own."""
    path = script(f"echo x >> {tmp_path}/asked; echo {SECRET}-$(wc -l < {tmp_path}/asked)")
    now = [100.0]
    one = settings(str(path), "once", "{host}", seconds=60)
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(used(one, lambda: now[0]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [f"{SECRET}-1"] * 8
    now[0] = 159.9
    assert used(one, lambda: now[0]) == f"{SECRET}-1"
    assert used(settings(str(path), "once", "{host}", seconds=60, host="replica"), lambda: now[0]) == f"{SECRET}-2"
    now[0] = 160.0
    assert used(one, lambda: now[0]) == f"{SECRET}-3"


def _refuses(*good: str, code: int = 1045, tried: list[str] | None = None) -> Callable[[str], str]:
    def connect(password: str) -> str:
        if tried is not None:
            tried.append(password)
        if password not in good:
            raise pymysql.err.OperationalError(code, "Access denied")
        return password

    return connect


def test_a_refused_password_is_asked_for_again(script: Callable[[str], Path], tmp_path: Path) -> None:
    """One from before, once; one that was printed for this connection is what it is, and the next attempt asks anew.
    Another error says nothing of the password."""
    one, file, tried = settings("/bin/cat", str(tmp_path / "token.txt")), tmp_path / "token.txt", list[str]()
    file.write_text("first\n")
    assert with_password(one, _refuses("first")) == "first"
    file.write_text("second\n")
    with pytest.raises(pymysql.err.OperationalError, match="2003"):
        with_password(one, _refuses(code=2003, tried=tried))
    assert tried == ["first"]
    assert with_password(one, _refuses("second", tried=tried)) == "second"
    assert tried == ["first", "first", "second"]
    file.write_text("third\n")
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        with_password(one, _refuses(tried=tried))
    assert tried[3:] == ["second", "third"]
    file.write_text("fourth\n")
    assert with_password(one, _refuses("fourth", tried=tried)) == "fourth"
    assert tried[5:] == ["fourth"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"echo {SECRET}; echo {SECRET} >&2; exit 7", "token ended with 7"),
        ("exit 0", "token printed nothing"),
        ("echo", "token printed nothing"),
        ("printf '\\377'", "token printed what is not UTF-8"),
        (f"echo {SECRET}; sleep 60 & wait", "token takes longer than 0.5 s"),
    ],
)
def test_a_command_that_fails_is_worth_another_try(
    script: Callable[[str], Path], lines: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It says how, without its arguments and without what it printed. Nothing that it started lives on."""
    began = time.monotonic()
    with pytest.raises(SourceUnavailable) as caught:
        used(settings(str(script(lines)), "--key=hidden", longest=0.5))
    assert said in str(caught.value)
    assert time.monotonic() - began < 30
    assert caught.value.place == "sluice.source.password.command"
    shown = "".join((str(caught.value), caught.value.hint, *capfd.readouterr()))
    assert SECRET not in shown
    assert "hidden" not in shown


@pytest.mark.parametrize("path", ["/nowhere/token", "/"])
def test_a_program_that_is_none_is_named(path: str) -> None:
    """Another attempt does not help."""
    with pytest.raises(ConfigError, match="cannot be run") as caught:
        used(settings(path, "--key=hidden"))
    assert isinstance(caught.value, SluiceError)
    assert "hidden" not in str(caught.value)
