"""Cursors in a file: what only a file can do wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_core.errors import CursorError
from cdc_core.meta.file import FileNodes
from cdc_core.meta.nodes import Change


def test_a_broken_file_is_named_and_not_overwritten(tmp_path: Path) -> None:
    """Half a file, as a full disk leaves it, is an error for reads and writes."""
    path = tmp_path / "cursors.json"
    path.write_text('{"/a": ')

    with pytest.raises(CursorError) as refused:
        FileNodes(path).write({"/a": Change(b"1", None)})

    assert refused.value.place == str(path)
    assert path.read_text() == '{"/a": '


def test_a_write_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The directory cannot be made: the error names the file, and what was read before is still what is there."""
    (tmp_path / "conf").write_text("a file where the directory should be")
    nodes = FileNodes(tmp_path / "conf" / "cursors.json")

    with pytest.raises(CursorError, match="cannot"):
        nodes.write({"/a": Change(b"1", None)})
