"""The folder of a database or table in the lake, by its name, and back: every name has one folder of its own.

A folder has ASCII characters alone, because Spark and delta-rs read other characters of a path by locale, URL and
store. It has at most 255 bytes, the limit of file systems. In stores that ignore case only the table's owner keeps
names apart: see `TableState.check_owner`.
"""

from __future__ import annotations

import base64
import re

from cdc_core.schema.names import escaped, unescaped

LONGEST = 255  # bytes
_MARK, _LONG = "@", "@@"
# Not a plain character; or a name that means something to the file system, to Delta or to Sluice.
_ODD = re.compile(r"[^A-Za-z0-9_ $.~!+-]|^\.(?=\.?$)|^_(?=(?i:delta_log)$|(?i:sluice))")


def folder_of(name: str) -> str:
    """Returns the folder of a database or table. Letters, digits and ` _ $ . ~ ! + -` stay, all else is `@` and four
    hexadecimal digits. A folder too long for that is `@@` and the name's UTF-16 in base 32.

    Raises ValueError for a name that is too long both ways; the servers allow no such name.
    """
    folder = escaped(name, _ODD, _MARK)
    if len(folder) > LONGEST:
        folder = _LONG + base64.b32encode(name.encode("utf-16-be")).decode().rstrip("=").lower()
    if len(folder) > LONGEST:
        raise ValueError(f"the name {name!r} is too long for a folder: {len(folder)} bytes, of {LONGEST}")
    return folder


def name_of(folder: str) -> str:
    """Returns the database or table of a folder."""
    if folder.startswith(_LONG):
        digits = folder.removeprefix(_LONG).upper()
        return base64.b32decode(digits + "=" * (-len(digits) % 8)).decode("utf-16-be")
    return unescaped(folder, _MARK)
