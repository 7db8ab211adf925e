"""The language of rules: a part of MySQL's SQL, as syntax trees of sqlglot.

`conditions` and `expressions` are texts of it, `evaluation` says what they mean. A text that is not in the language is
refused when it is read, with the part that is not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp, parse_one
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import SqlglotError

from cdc_core.errors import ConfigError

_MYSQL = MySQL()
_LONGEST = 4000  # characters
_DEEPEST = 450  # frames of an evaluation; Python has 1000. A value takes two
_FRAMES_OF_CHOICE = 5  # the most that CASE, IF or COALESCE takes
MOST_DIGITS = 76  # of a number while it is computed
_MOST_PRECISION = 38  # of a number that a column of the lake has
_MOST_FRACTION = 6  # digits of a second
_JSON_UNQUOTE = "JSON_UNQUOTE"
PARTS_OF_TIME = ("%Y", "%m", "%d", "%H", "%M", "%S")  # as sqlglot writes MySQL's %Y %m %d %H %i %s
_NEUTRAL = (
    "safe",
    "coalesce",
    "typed",
    "date_part_boundary",
    "only_json_types",
    "scalar_only",
    "ignore_nulls",
    "_type",
)


@dataclass(frozen=True, slots=True)
class Form:
    """What a node has: `values` are the names of its parts that are values, `constants` of those that are not, each
    with what it must be. `conditions`: parts that are conditions. `null`: a value may be the word NULL."""

    values: tuple[str, ...] = ("this",)
    constants: Mapping[str, Callable[[exp.Expr], bool]] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()
    null: bool = False


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def is_count(node: exp.Expr) -> bool:
    """Whether it is a whole number, of less than ten digits."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) < 10


def _is_place(node: exp.Expr) -> bool:
    return is_count(node) and int(node.name) > 0


def _is_scale(node: exp.Expr) -> bool:
    return is_count(node) and int(node.name) <= 30


def _is_pattern(node: exp.Expr) -> bool:
    """Whether a pattern of DATE_FORMAT has no other parts than `PARTS_OF_TIME`."""
    text = node.name
    for part in PARTS_OF_TIME:
        text = text.replace(part, "")
    return _is_text(node) and "%" not in text


def _is_path(node: exp.Expr) -> bool:
    """Whether a JSON path names members and places alone: `$.a."b c"[0]`."""
    if not isinstance(node, exp.JSONPath):
        return False
    root, *steps = node.expressions
    return isinstance(root, exp.JSONPathRoot) and all(
        (isinstance(step, exp.JSONPathKey) and isinstance(step.this, str))
        or (isinstance(step, exp.JSONPathSubscript) and isinstance(step.this, int) and step.this >= 0)
        for step in steps
    )


def _is_type(node: exp.Expr) -> bool:
    """Whether CAST can make it: CHAR, CHAR(n), SIGNED, DECIMAL(p, s), DATE, DATETIME, DATETIME(n)."""
    sizes = [one.this for one in node.expressions]
    if not isinstance(node, exp.DataType) or not all(isinstance(one, exp.Literal) and is_count(one) for one in sizes):
        return False
    counts = [int(one.name) for one in sizes]
    match node.this:
        case exp.DType.CHAR:
            return len(counts) < 2
        case exp.DType.DECIMAL:
            return len(counts) == 2 and counts[1] <= counts[0] <= _MOST_PRECISION and counts[0] > 0
        case exp.DType.DATETIME:
            return len(counts) < 2 and sum(counts) <= _MOST_FRACTION
        case exp.DType.BIGINT | exp.DType.DATE:
            return not counts
        case _:
            return False


_TWO, _MANY, _BOTH = ("this", "expression"), ("expressions",), ("this", "expressions")

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "equal", exp.NEQ: "not_equal", exp.LT: "less", exp.LTE: "less_equal", exp.GT: "greater",
    exp.GTE: "greater_equal",
}  # fmt: skip

CONDITIONS: dict[type[exp.Expr], Form] = {
    **dict.fromkeys(COMPARISONS, Form(_TWO)),
    exp.And: Form((), conditions=_TWO),
    exp.Or: Form((), conditions=_TWO),
    exp.Not: Form((), conditions=("this",)),
    exp.Is: Form(constants={"expression": lambda node: isinstance(node, exp.Null)}),
    exp.In: Form(_BOTH),
    exp.Between: Form(("this", "low", "high")),
    exp.Like: Form(constants={"expression": _is_text}),
}

VALUES: dict[type[exp.Expr], Form] = {
    exp.Column: Form(()),
    exp.Literal: Form(()),
    exp.Boolean: Form(()),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod), Form(_TWO)),
    **dict.fromkeys((exp.Neg, exp.Abs, exp.Floor, exp.Ceil), Form()),
    exp.Round: Form(constants={"decimals": _is_scale}),
    **dict.fromkeys((exp.Lower, exp.Upper, exp.Length), Form()),
    exp.Trim: Form(constants={"position": lambda _: True}),
    exp.Concat: Form(_MANY),
    exp.ConcatWs: Form(_MANY),
    exp.Replace: Form(("this", "expression", "replacement")),
    **dict.fromkeys((exp.Left, exp.Right), Form(constants={"expression": is_count})),
    exp.Substring: Form(constants={"start": _is_place, "length": is_count}),
    exp.JSONExtractScalar: Form(constants={"expression": _is_path}),
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth, exp.Hour), Form()),
    **dict.fromkeys((exp.Minute, exp.Second, exp.TsOrDsToDate, exp.TsOrDsToTimestamp), Form()),
    exp.DateDiff: Form(_TWO),
    exp.TimeToStr: Form(constants={"format": _is_pattern}),
    exp.Cast: Form(constants={"to": _is_type}),
    exp.Coalesce: Form(_BOTH, null=True),
    exp.Nullif: Form(_TWO),
    exp.Case: Form(("this", "default"), null=True),  # and `ifs`, which depend on `this`
    exp.If: Form(("true", "false"), conditions=("this",), null=True),
}


def parsed(text: str, *, of_values: bool, hint: str) -> exp.Expr:
    """Returns the tree of a text: a condition, or with `of_values` a value or a condition. Raises ConfigError for what
    is not in the language, with the place in the text."""
    refuse = _Refusal(text, "an expression" if of_values else "a condition", hint)
    if len(text) > _LONGEST:
        raise refuse(f"it has more than {_LONGEST} characters")
    begins = text.lstrip()[: len("REPLACE")].upper() == "REPLACE"  # a statement too
    enclosed = f"({text}\n)" if begins else text
    try:
        root = parse_one(enclosed, read="mysql")
    except (SqlglotError, RecursionError) as error:
        raise refuse(_first_line(error)) from error
    root = plain(root.transform(_unquoted))
    _check(root, refuse, of_values=of_values and not is_condition(root))
    if any(token.comments for token in _MYSQL.tokenize(enclosed)):  # in one line it would take the rest away
        raise refuse("it has a comment")
    return root


def plain(node: exp.Expr) -> exp.Expr:
    """Returns the node without parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_condition(node: exp.Expr) -> bool:
    """Whether it is true or false, and no value."""
    return type(plain(node)) in CONDITIONS


def columns_of(root: exp.Expr) -> tuple[str, ...]:
    """Returns the names that it has, in lower case."""
    return tuple(dict.fromkeys(node.name.lower() for node in root.find_all(exp.Column)))


def values_in(node: exp.Expr) -> list[exp.Expr]:
    """Returns the parts of a node that are values, in order."""
    form = VALUES.get(type(node)) or CONDITIONS[type(node)]
    return _parts(node, form.values)


@dataclass(frozen=True, slots=True)
class _Refusal:
    text: str
    what: str
    hint: str

    def __call__(self, why: str) -> ConfigError:
        return ConfigError(f"{self.text[:200]!r} is not {self.what}: {why}", hint=self.hint)


def _first_line(error: Exception) -> str:
    """What sqlglot says of the place, without its colours."""
    found = getattr(error, "errors", None)
    if not found:
        return str(error).split("\n", 1)[0] or "it has too many parts"
    return f"{found[0]['description']}, at line {found[0]['line']}, column {found[0]['col']}"


def _unquoted(node: exp.Expr) -> exp.Expr:
    """JSON_UNQUOTE(JSON_EXTRACT(doc, path)) as doc->>path, which is the same."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == _JSON_UNQUOTE and len(node.expressions) == 1:
        (inner,) = node.expressions
        if isinstance(inner, exp.JSONExtract) and not inner.expressions:
            return exp.JSONExtractScalar(this=inner.this, expression=inner.expression)
    return node


def _parts(node: exp.Expr, names: tuple[str, ...]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for name in names:
        part = node.args.get(name)
        found += part if isinstance(part, list) else [] if part is None else [part]
    return found


def _check(node: exp.Expr, refuse: _Refusal, *, of_values: bool, null: bool = False, depth: int = 0) -> None:
    """Raises ConfigError for a node that is not in the language, or not where it stands, and for one so deep that its
    evaluation would not end well."""
    if depth > _DEEPEST:
        raise refuse("it has too many parts")
    node = plain(node)
    if null and isinstance(node, exp.Null):
        return
    form = (VALUES if of_values else CONDITIONS).get(type(node))
    if form is None or not _fits(node, form):
        what = "a value" if of_values else "a condition"
        raise refuse(f"{node.sql('mysql')[:80]!r} is not {what} of the language")
    depth += _FRAMES_OF_CHOICE if form.null else 1 + of_values
    for one in _parts(node, form.conditions):
        _check(one, refuse, of_values=False, depth=depth)
    for one in _parts(node, form.values):
        _check(one, refuse, of_values=True, null=form.null, depth=depth)
    if isinstance(node, exp.Case):
        for branch in node.args["ifs"]:
            _check(branch.this, refuse, of_values=node.this is not None, depth=depth)
            _check(branch.args["true"], refuse, of_values=True, null=True, depth=depth)


def _fits(node: exp.Expr, form: Form) -> bool:
    """Whether a node has all parts of its form, and no other one."""
    there = {name: part for name, part in node.args.items() if part not in (None, False, [])}
    for name, fits in form.constants.items():
        if name in there and not fits(there[name]):
            return False
    known = {*form.values, *form.constants, *form.conditions, *_NEUTRAL}
    match node:
        case exp.Column():
            return there.keys() == {"this"} and isinstance(node.this, exp.Identifier)
        case exp.Literal():
            return bool(node.is_string) or _is_number(node.name)
        case exp.Boolean():
            return True
        case exp.Case():
            known.add("ifs")
        case exp.Like():
            known.add("negate")
        case exp.Substring():
            return "start" in there and there.keys() <= known
        case exp.Concat():
            return bool(node.args.get("safe"))  # not strings side by side, which are one string in MySQL
        case exp.In():
            return bool(node.expressions) and there.keys() <= known
        case exp.If():
            return "false" in there and there.keys() <= known
        case exp.Trim():
            return there.get("position") in (None, "LEADING", "TRAILING") and there.keys() <= known
    return there.keys() <= known


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit() and text.isascii() and len(text) < MOST_DIGITS
