"""What each statement of the servers' grammar does to tables."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_core.position import EntryPosition
from cdc_core.schema.ddl import ColumnChange, Ddl, Effect
from cdc_core.schema.ddl_parser import effects
from cdc_core.schema.sql_text import Dialect

STATEMENTS = Path(__file__).parent / "statements"
DIALECTS = {
    "": Dialect(),
    "mariadb": Dialect(mariadb=True),
    "ansi": Dialect(ansi_quotes=True),
    "no escapes": Dialect(backslash_escapes=False),
    "ansi no escapes": Dialect(ansi_quotes=True, backslash_escapes=False),
    "lower case": Dialect(lower_case=True),
}


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """Dialect, statement and effects of each case: `[dialect] statement`, then its effects, indented."""
    for file in sorted(STATEMENTS.glob("*.txt")):
        lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
        starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
        for at, following in zip(starts, [*starts[1:], len(lines)], strict=True):
            dialect, text = lines[at][1:].split("] ", 1) if lines[at].startswith("[") else ("", lines[at])
            yield dialect, text, [line.strip() for line in lines[at + 1 : following]]


def shown(effect: Effect) -> str:
    parts = [effect.kind.value, effect.name, f"-> {'.'.join(effect.to)}" if effect.to else ""]
    parts += [f"like {'.'.join(effect.like)}" if effect.like else "", "if" if effect.conditional else ""]
    head = " ".join(filter(None, parts))
    return f"{head}: {'; '.join(map(shown_change, effect.changes))}" if effect.changes else head


def shown_change(change: ColumnChange) -> str:
    is_key = change.kind.value == "key"
    parts = [change.kind.value, change.name, f"-> {change.to}" if change.to else ""]
    parts.append(f"({', '.join(change.columns)})" if is_key else "")
    parts.append(f"<{change.definition}>" if change.definition or change.kind.value == "unknown" else "")
    parts.append({"": "first", None: ""}.get(change.after, f"after {change.after}"))
    return " ".join(filter(None, [*parts, "if" if change.conditional else ""]))


@pytest.mark.parametrize(
    ("dialect", "text", "expected"), list(cases()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_effects(dialect: str, text: str, expected: list[str]) -> None:
    """Each statement has the effects that stand below it in `statements/`."""
    found, understood = effects(text, "d", DIALECTS[dialect])
    lines = [*map(shown, found), *([] if understood else ["not understood"])]
    assert (lines or ["nothing"]) == expected


def test_effects_keep_their_json_form() -> None:
    """A statement comes back from JSON as it was, with every effect that the parser makes."""
    for dialect, text, _ in cases():
        found, understood = effects(text, "d", DIALECTS[dialect])
        ddl = Ddl(EntryPosition("mysql-bin.000001", 400), "d", text, found, understood)
        assert Ddl.from_dict(ddl.to_dict()) == ddl


WORDS = [word for _, text, _ in cases() for word in text.split()]


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(sorted(DIALECTS)))
def test_any_words_have_effects(words: list[str], dialect: str) -> None:
    """No statement makes the parser raise, or run for ever."""
    effects(" ".join(words), "d", DIALECTS[dialect])


@given(st.text(max_size=40))
def test_any_text_has_effects(text: str) -> None:
    """No text makes the parser raise, or run for ever."""
    effects("ALTER TABLE t " + text, "d")
