"""The code of the documentation's pages: its blocks, and what is wrong with one."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlglot
import typer
import yaml
from pydantic import ValidationError
from sqlglot.errors import SqlglotError

from cdc_core.config.canal_keys import is_unsupported
from cdc_core.config.models import INSTANCE_KEYS, SERVICE_KEYS
from cdc_core.config.queue import is_of_queues
from orchestration.cli import app
from orchestration.settings import Settings

ROOT = Path(__file__).parents[2]
PACKAGES = ("cdc_core", "spark_jobs", "orchestration")
_FENCE = re.compile(r"^( *)```(\w*)$")
_SLUICE = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:docker compose exec code |[\w./]*/)?sluice ((?:[a-z]|--).*)$")
_INLINE = re.compile(r"`sluice ([a-z][^`\n]*)`")
_MAKE = re.compile(r"^(?:[A-Z_]+=\S+ )*make ([a-z]\S*)((?: [A-Z_]+=\S+)*)")
_KEY = re.compile(r"^((?:canal|sluice|kafka|rocketmq)\.[\w.]+) *=")
_SQL = re.compile(r"^(SELECT|CREATE|GRANT|ALTER|INSERT|UPDATE|DELETE|SET) [^=]")
_PYTHON = re.compile(r"^(import \w|from [\w.]+ import |@\w|def \w|class \w)(?!.*;$)")
_COMMANDS: Any = typer.main.get_command(app)


@dataclass(frozen=True, slots=True)
class Code:
    """A block of a page. `kind` is the word after the fence, "" for an indented one."""

    line: int
    kind: str
    text: str


def blocks(page: Path) -> Iterator[Code]:
    """Yields the fenced blocks, and the indented ones after an empty line."""
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        begin = at
        at += 1
        if fence := _FENCE.match(lines[begin]):
            while lines[at].strip() != "```":
                at += 1
            yield Code(begin + 2, fence[2], textwrap.dedent("\n".join(lines[begin + 1 : at])))
            at += 1
        elif re.match(r" {4,}\S", lines[begin]) and not lines[begin - 1].strip():
            indent = re.match(" *", lines[begin])[0]  # type: ignore[index]
            while at < len(lines) and (not lines[at].strip() or lines[at].startswith(indent)):
                if _FENCE.match(lines[at]):
                    break
                at += 1
            yield Code(begin + 1, "", textwrap.dedent("\n".join(lines[begin:at]).rstrip()))


def faults(page: Path) -> Iterator[str]:
    """Yields what is wrong with the code of a page, with the line."""
    for code in blocks(page):
        for fault in _of_block(code):
            yield f"{page.name}:{code.line}: {fault}"
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for words in _INLINE.findall(line):
            if fault := command_fault(re.sub(r"\.\.\.|[][]", " ", words).split(" | ")[0], whole=False):
                yield f"{page.name}:{number}: `sluice {words}`: {fault}"


def _of_block(code: Code) -> Iterator[str]:
    for line in re.sub(r" *\\\n *", " ", code.text).splitlines():
        if (found := _SLUICE.match(line)) and (fault := command_fault(found[1], whole="..." not in found[1])):
            yield f"{line.strip()}: {fault}"
        if found := _MAKE.match(line):
            yield from _make_faults(found[1], found[2].split())
        if (found := _KEY.match(line)) and not known(found[1]):
            yield f"{found[1]} is no key"
        if code.kind == "properties" and line and not re.match(r"#|[\w.]+ *=", line):
            yield f"{line}: no property"
    if code.kind == "yaml" or _is_defs(code):
        yield from _defs_faults(code.text)
    elif code.kind == "python" or (not code.kind and _PYTHON.match(code.text)):
        yield from _python_faults(code.text)
    elif code.kind == "sql" or (not code.kind and _SQL.match(code.text)):
        yield from _sql_faults(code.text, "mysql")


def command_fault(line: str, *, whole: bool) -> str:
    """Returns what is wrong with the words after `sluice`, or "". `whole`: values and all that is required count."""
    words = shlex.split(line, comments=True)
    command: Any = _COMMANDS
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    context = command.context_class(command)
    try:
        given, rest, _ = command.make_parser(context).parse_args(words)
        for one in command.params if whole and words != ["--help"] else ():
            one.process_value(context, one.consume_value(context, given)[0])
    except Exception as error:  # of click's, or of its copy in typer
        if not hasattr(error, "format_message"):
            raise
        fault = str(error.format_message())
        return fault if whole or "requires an argument" not in fault else ""
    return f"{' '.join(rest)} is too much" if rest and whole else ""


def _make_faults(target: str, variables: list[str]) -> Iterator[str]:
    text = (ROOT / "Makefile").read_text()
    if not re.search(rf"^{re.escape(target)}:", text, re.M):
        yield f"make has no target {target}"
    for one in variables:
        if not re.search(rf"^## {one.partition('=')[0]}=", text, re.M):
            yield f"make has no variable {one}"


def known(key: str) -> bool:
    """Whether the service or Canal knows a key."""
    if key in SERVICE_KEYS | INSTANCE_KEYS or is_unsupported(key):
        return True
    return any(is_of_queues(key, mode) for mode in ("kafka", "rocketMQ"))


def _is_defs(code: Code) -> bool:
    first = re.match(r"(\w+):(?: |$)", code.text, re.M)
    return bool(not code.kind and first and first[1] in {*Settings.model_fields, "type", "attributes"})


def _defs_faults(text: str) -> Iterator[str]:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        yield f"no YAML: {error}"
        return
    for found in documents:
        if "dbMapping" in found:  # a rule of the mirror
            continue
        attributes = found.get("attributes", {key: found[key] for key in found if key != "type"})
        attributes.pop("translation", None)  # Dagster makes a function of it
        try:
            Settings.model_validate({"destination": "shop", "lake": "/lake", **attributes})
        except ValidationError as error:
            yield f"no defs.yaml: {error}"


def _python_faults(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"no Python: {error}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from _import_faults(str(node.module), [alias.name for alias in node.names])


def _import_faults(module: str, names: list[str]) -> Iterator[str]:
    place = ROOT.joinpath(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.exists():
        yield f"there is no module {module}"
        return
    text = file.read_text()
    for name in names:
        if not (re.search(rf"\b{name}\b", text) or (place / f"{name}.py").exists()):
            yield f"{module} has no {name}"


def _sql_faults(text: str, dialect: str) -> Iterator[str]:
    try:
        sqlglot.parse(text, dialect=dialect)
    except SqlglotError as error:
        yield f"no SQL: {error}"
