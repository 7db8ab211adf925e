"""Cursors in a file: the errors that only files have."""

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
    """If the directory cannot be made the error names the file, and earlier contents stay."""
    (tmp_path / "conf").write_text("a file where the directory should be")
    nodes = FileNodes(tmp_path / "conf" / "cursors.json")

    with pytest.raises(CursorError, match="cannot"):
        nodes.write({"/a": Change(b"1", None)})
