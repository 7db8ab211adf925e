"""What `make setup` does before there is anything to import."""

from __future__ import annotations

from scripts.uv import variables

LISTED = r"""
global.index-url='https://someone:secret@packages.example/simple'
global.timeout='60'
install.find-links='/one\n/other'
:env:.timeout='180'
:env:.disable-pip-version-check='1'
"""


def test_uv_takes_packages_from_where_pip_does() -> None:
    """pip's own variables win over its files, and an option that uv lacks is left out."""
    assert variables(LISTED) == {
        "UV_DEFAULT_INDEX": "https://someone:secret@packages.example/simple",
        "UV_FIND_LINKS": "/one,/other",
        "UV_HTTP_TIMEOUT": "180",
    }
