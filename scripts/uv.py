"""Runs uv, as `python -m scripts.uv UV ARGUMENTS...`, with the index, certificates and folders that this Python's pip
is configured with: by its files, or by variables. What pip can that uv cannot is left out."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

# uv's variable and what is between its values, by pip's option. pip has white space between them.
_NAMES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
}


def variables(listed: str) -> dict[str, str]:
    """uv's variables, by what `pip config list` prints: lines of `global.timeout='60'`, where what pip was told by a
    variable, as `:env:.timeout='60'`, wins. That of the command `install` wins over `global`."""
    lines = [line.partition("=") for line in listed.splitlines() if "=" in line]
    found: dict[str, str] = {}
    for scope in ("global", "install", ":env:"):
        for name, _, value in lines:
            place, _, option = name.rpartition(".")
            if place == scope and option in _NAMES:
                key, between = _NAMES[option]
                found[key] = between.join(str(ast.literal_eval(value)).split())
    return found


def main() -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    sys.exit(subprocess.run(sys.argv[1:], env=variables(listed) | os.environ).returncode)


if __name__ == "__main__":
    main()
