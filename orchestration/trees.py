"""Dagster's component tree of a `defs.yaml`, each of a folder of its own, and what the trees declare."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import dagster as dg

from orchestration.settings import Settings


def files_of(folder: Path) -> list[Path]:
    """Returns the files of a folder of destinations."""
    return sorted([*folder.glob("*/defs.yaml"), *folder.glob("*/defs.yml")])


def tree_of(file: Path) -> dg.ComponentTree:
    """Returns the component tree of one file."""
    folder = file.absolute().parent
    module = types.ModuleType(f"sluice_defs_{re.sub('[^A-Za-z0-9_]', '_', folder.name)}")
    module.__file__, module.__path__ = None, [str(folder)]
    sys.modules[module.__name__] = module  # the component loader knows folders as modules only
    return dg.ComponentTree.from_module(module, folder)


def settings_beside(context: dg.ComponentLoadContext) -> Iterator[Settings]:
    """Yields what is declared about destinations in the component's project, then in its sibling folders. Files
    that cannot be read have errors of their own."""
    yield from _settings(context.component_tree)
    for file in files_of(context.path.parent):
        with suppress(Exception):
            yield from _settings(tree_of(file))


def _settings(tree: dg.ComponentTree) -> list[Settings]:
    return tree.get_all_components(cast(Any, Settings))
