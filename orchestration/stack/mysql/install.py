"""The program that serves a MySQL version, and copies of its initialised data directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchestration.stack.artifacts import prepare
from orchestration.stack.mysql.packaged import packaged_server
from orchestration.stack.mysql.unstable import UNSTABLE, unstable_command, unstable_server
from orchestration.stack.prerequisites import need_mariadb
from orchestration.stack.process import ProcessError
from orchestration.stack.progress import Notify, quiet

MARIADB = "mariadb"


@dataclass(frozen=True, slots=True)
class Installed:
    """A server program: `command` serves a data directory, `initialise` makes a new one."""

    version: str
    command: tuple[str, ...]
    initialise: tuple[str, ...]
    notify: Notify = quiet

    @property
    def mariadb(self) -> bool:
        return self.version == MARIADB


def install(version: str, notify: Notify = quiet) -> Installed:
    """Raises ConfigError with the remedy when the server cannot be had."""
    if version == MARIADB:
        mariadbd, installer = need_mariadb(notify)
        initialise = [installer, "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        return Installed(version, (mariadbd, "--no-defaults", *_as_root()), (*initialise, *_as_root()), notify)
    if version == UNSTABLE:
        prefix = unstable_server(notify)
        program, base, messages = unstable_command(prefix), prefix / "usr", prefix / "usr" / "share" / "mysql"
    else:
        prefix = packaged_server(version, notify)
        program, base, messages = (str(prefix / "bin" / "mysqld"),), prefix, prefix / "share"
    plugins = prefix / "plugins"
    plugins.mkdir(exist_ok=True)
    command = [*program, "--no-defaults", f"--basedir={base}", f"--plugin-dir={plugins}"]
    command += [f"--lc-messages-dir={messages}", f"--character-sets-dir={messages / 'charsets'}", *_as_root()]
    initialise = [*command, "--initialize-insecure", "--innodb-buffer-pool-size=64M"]
    return Installed(version, tuple(command), (*initialise, "--loose-innodb-redo-log-capacity=32M"), notify)


def copy_template(installed: Installed, data: Path) -> None:
    """Puts a freshly initialised data directory at `data`, with its own identity."""

    def fill(directory: Path) -> None:
        installed.notify(f"initialising a data directory for {installed.version} (once)")
        _initialise(installed, directory)

    template = prepare(f"data-{installed.version}", "mysql", fill)
    data.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(template, data)


def _initialise(installed: Installed, directory: Path) -> None:
    command = [*installed.initialise, f"--datadir={directory}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProcessError(
            f"cannot initialise a data directory for {installed.version}:\n{done.stderr[-2000:]}",
            place=str(directory),
            hint="The server's own message says why.",
        )
    (directory / "auto.cnf").unlink(missing_ok=True)  # the server's UUID: every copy gets its own


def _as_root() -> tuple[str, ...]:
    return ("--user=root",) if os.geteuid() == 0 else ()
