"""Which tables are captured: Canal's `canal.instance.filter.regex` and `filter.black.regex`.

Each is a comma separated list of regular expressions that must match all of `schema.table`, ignoring case. An empty
`filter.regex` captures all tables, an empty `filter.black.regex` excludes none. Unlike in Canal, a comma inside braces
belongs to its expression, blanks around an expression do not, and the server's own schemas (mysql, sys,
information_schema, performance_schema) are left out unless an expression begins with their name, since `.*\\..*` means
the user's tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from cdc_core.errors import ConfigError
from cdc_core.stream.effort import TooMuch, check_effort

TableFilter = Callable[[str, str], bool]

SYSTEM_SCHEMAS = ("mysql", "sys", "information_schema", "performance_schema")
_MOST_FOREIGN = 1 << 16  # characters: the matcher of more is made for seconds
_COMMA = re.compile(r",(?![^{}]*\})")


def make_filter(regex: str, black_regex: str = "", key: str = "canal.instance.filter.regex") -> TableFilter:
    """`captured(schema, table)`. Raises ConfigError, whose place is `key`, for an expression that does not compile."""
    steps: list[TableFilter] = [_user_schemas(regex)]
    if included := _matcher(regex, key):
        steps.append(lambda schema, table: included(f"{schema}.{table}") is not None)
    if excluded := _matcher(black_regex, "canal.instance.filter.black.regex"):
        steps.append(lambda schema, table: excluded(f"{schema}.{table}") is None)
    return lambda schema, table: all(step(schema, table) for step in steps)


def check_foreign(regex: str, key: str) -> None:
    """Of a program that connects: raises ConfigError also for a filter that would hold the service up."""
    if len(regex) > _MOST_FOREIGN:
        hint = "Write expressions instead of names, or use several client ids."
        raise ConfigError(
            f"a filter of {len(regex)} characters; at most {_MOST_FOREIGN} are read", place=key, hint=hint
        )
    make_filter(regex, key=key)
    try:
        check_effort(_expressions(regex))
    except TooMuch as error:
        hint = r"Write it simpler, e.g. shop\\..* or shop\\.(a|b)_[0-9]+."
        raise ConfigError(f"{regex[:100]!r} may search for too long: {error}", place=key, hint=hint) from error


def _expressions(regex: str) -> list[str]:
    """The expressions, longest first: alternatives are tried in this order."""
    return sorted(filter(None, (part.strip() for part in _COMMA.split(regex))), key=len, reverse=True)


def _matcher(regex: str, key: str) -> Callable[[str], re.Match[str] | None] | None:
    expressions = _expressions(regex)
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error as error:
            raise ConfigError(
                f"{expression!r} is not a regular expression: {error}",
                place=key,
                hint=r"Write schema\\.table, e.g. shop\\..* (two backslashes in a properties file), "
                "several separated by commas.",
            ) from error
    if not expressions:
        return None
    return re.compile("|".join(f"(?:{e})" for e in expressions), re.IGNORECASE | re.DOTALL).fullmatch


def _user_schemas(regex: str) -> TableFilter:
    heads = {re.split(r"\\?\.", expression, maxsplit=1)[0].lower() for expression in _expressions(regex)}
    hidden = {schema for schema in SYSTEM_SCHEMAS if schema not in heads}
    return lambda schema, _: schema.lower() not in hidden
