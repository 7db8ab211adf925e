"""The clear-text client plugin against a real server: MariaDB with PAM asks for the password as a cloud's server does.

PAM's configuration of the test is laid over /etc/pam.d in the mount namespace of the server's helper alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cdc_core.errors import SourceError, SourceUnavailable
from cdc_core.source.connection import connect
from cdc_core.source.password_command import PasswordCommand
from cdc_core.source.settings import SourceSettings, SslMode
from orchestration.stack.mysql.server import MySqlServer
from tests.support.certificates import Authority
from tests.support.mariadb_plugins import plugin_directory
from tests.support.servers import MySqlFactory, settings_of

pytestmark = pytest.mark.integration

TOKEN = "token-of-the-hour"
_HELPER = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind {rules} /etc/pam.d && exec {program}'
"""
_CHECK = """#!/bin/sh
tr -d '\\0' >> {heard}
[ "$(tail -n 1 {heard})" = "$(cat {token})" ]; right=$?
echo >> {heard}
exit $right
"""


class Pam:
    """The server, the authority of its certificate, the token that it takes, and every password that it has heard."""

    def __init__(self, server: MySqlServer, folder: Path) -> None:
        self.server, self.authority = server, folder / "ca.pem"
        self.token, self._heard = folder / "token", folder / "heard"

    @property
    def heard(self) -> list[str]:
        return self._heard.read_text().split() if self._heard.exists() else []

    def settings(self, mode: SslMode, command: str) -> SourceSettings:
        return settings_of(
            self.server, user="by_pam", password="unused", ssl_mode=mode, ssl_ca=str(self.authority),
            password_command=PasswordCommand(("/bin/cat", command)),
        )  # fmt: skip


@pytest.fixture(scope="module")
def pam(new_mysql: MySqlFactory, tmp_path_factory: pytest.TempPathFactory) -> Pam:
    """An account whose password a program of PAM checks."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("PAM's configuration is laid over the system's own: that needs root and a mount namespace")
    folder = tmp_path_factory.mktemp("pam")
    plugins, rules = folder / "plugins", folder / "pam.d"
    shutil.copytree(plugin_directory(folder), plugins)
    helper = plugins / "auth_pam_tool_dir" / "auth_pam_tool"
    program = helper.rename(helper.with_name("program"))
    _program(helper, _HELPER, rules=rules, program=program)
    rules.mkdir()
    _program(folder / "check", _CHECK, heard=folder / "heard", token=folder / "token")
    lines = f"auth required pam_exec.so expose_authtok {folder / 'check'}\naccount required pam_permit.so\n"
    (rules / "sluice").write_text(lines)
    authority = Authority(folder)
    authority.issue()
    server = new_mysql(
        "mariadb", plugin_dir=str(plugins), plugin_load_add="auth_pam", pam_use_cleartext_plugin=True,
        ssl_cert=str(authority.certificate), ssl_key=str(authority.key), ssl_ca=str(authority.path),
    )  # fmt: skip
    server.execute(
        "CREATE USER by_pam@'%' IDENTIFIED VIA pam USING 'sluice'", "GRANT REPLICATION SLAVE ON *.* TO by_pam@'%'"
    )
    return Pam(server, folder)


def _program(path: Path, text: str, **values: Path) -> None:
    path.write_text(text.format(**values))
    path.chmod(0o755)


@pytest.mark.parametrize("mode", [SslMode.VERIFY_IDENTITY, SslMode.VERIFY_CA])
def test_a_verified_server_gets_the_token(pam: Pam, tmp_path: Path, mode: SslMode) -> None:
    """The server hears what the command prints, and lets the account in."""
    pam.token.write_text(f"{TOKEN}-{mode}\n")
    with connect(pam.settings(mode, str(pam.token))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT CURRENT_USER()")
        assert cursor.fetchone() == ("by_pam@%",)
    assert pam.heard[-1] == f"{TOKEN}-{mode}"


@pytest.mark.parametrize("mode", [SslMode.REQUIRED, SslMode.PREFERRED, SslMode.DISABLED])
def test_no_other_server_hears_it(pam: Pam, tmp_path: Path, mode: SslMode) -> None:
    """Without a verified certificate the connection ends before the token is sent, and the error says how to verify."""
    pam.token.write_text("unverified\n")
    with pytest.raises(SourceError, match="mysql_clear_password") as caught:
        connect(pam.settings(mode, str(pam.token)))
    assert not isinstance(caught.value, SourceUnavailable)
    assert "sslMode = VERIFY_IDENTITY" in caught.value.hint
    assert "unverified" not in pam.heard


def test_a_token_that_has_expired_is_asked_for_again(pam: Pam, tmp_path: Path) -> None:
    """The server refuses the old one; the command is asked once more, and the same attempt gets in by the new one."""
    printed = tmp_path / "printed"
    for text in ("early", "late"):
        pam.token.write_text(f"{text}\n")
        printed.write_text(f"{text}\n")
        connect(pam.settings(SslMode.VERIFY_IDENTITY, str(printed))).close()
    assert pam.heard[-3:] == ["early", "early", "late"]
    printed.write_text("wrong\n")
    pam.token.write_text("right\n")
    with pytest.raises(SourceUnavailable, match="1045") as caught:
        connect(pam.settings(SslMode.VERIFY_IDENTITY, str(printed)))
    assert "sluice.source.password.command" in caught.value.hint
    assert not {"wrong", "late"} & set(str(caught.value).split())
