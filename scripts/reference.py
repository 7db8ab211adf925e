"""Writes the pages of docs/reference from the models: `python -m scripts.reference`.

Names, types and defaults are the models'. What a key of the properties files means is the line of docs/configuration.md
or docs/message-queues.md that names it; for a key of defs.yaml it is in `scripts/defs_keys.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import typer
import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from cdc_core.config.models import InstanceConfig, ServiceConfig
from cdc_core.config.queue import QueueConfig
from cdc_core.doors.http import metrics
from cdc_core.monitor.metrics import METRICS
from orchestration.cli import app
from orchestration.settings import Settings

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
_MADE = "<!-- made by `python -m scripts.reference`: edit the models, not this page -->\n\n"
_ROW = re.compile(r"^\| (`[^|]*`) \|.*\| ((?:[^|]|\\\|)*) \|$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)(#?)([^)]*)\)")


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {
        "properties.md": _properties(),
        "defs.md": _defs(),
        "commands.md": _commands(),
        "metrics.md": _metrics(),
    }


def _table(head: str, rows: list[tuple[str, ...]]) -> str:
    columns = head.split("|")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def key_texts() -> dict[str, str]:
    """Return what the tables of the guides say of each key of the properties files, with links from docs/reference."""
    found: dict[str, str] = {}
    for page in ("message-queues.md", "canal-clients.md", "configuration.md"):
        for cell, text in _ROW.findall((ROOT / "docs" / page).read_text()):
            shown = _LINK.sub(lambda link, page=page: f"](../{page if link[1] else ''}{link[1]}{link[2]})", text)
            shown = shown.replace("see below", "see [where it starts](../configuration.md#where-it-starts)")
            first = ""
            for name in re.findall(r"`([\w.*{}]+)(?: = \w+)?`", cell):
                parent = (
                    first
                    if "filter." in first
                    else first.replace(".master.journal.name", ".master").replace(".standby.address", ".standby")
                )
                whole = f"{parent.rsplit('.field', 1)[0]}{name}" if name.startswith(".") else name
                first = first or name
                found[whole] = shown
    return found


def _properties() -> str:
    texts = key_texts()
    parts = [
        "# Keys of the properties files\n\n" + _MADE,
        "The keys of `canal.properties` and `instance.properties`, by name. How they act together is in\n"
        "[Configuration](../configuration.md), and for message queues in [Message queues](../message-queues.md).\n",
    ]
    models: tuple[tuple[str, type[BaseModel]], ...] = (
        ("canal.properties", ServiceConfig),
        ("instance.properties", InstanceConfig),
        ("Message queues", QueueConfig),
    )
    for title, model in models:
        fields = sorted((str(field.alias), field) for field in model.model_fields.values() if field.alias)
        rows = [(f"`{key}`", type_of(field.annotation), _default(field), _text(key, texts)) for key, field in fields]
        parts.append(f"\n## {title}\n\n" + _table("key|type|default|meaning", rows))
    return "".join(parts)


def _text(key: str, texts: Mapping[str, str]) -> str:
    own = {
        "canal.conf.dir": "The directory of the destinations' folders.",
        "canal.instance.destination": "The folder's name. It cannot be set.",
        "canal.instance.enableDruid": "Not supported: take the password from the environment, by `${NAME}`.",
        "kafka.kerberos.enable": "Not supported.",
        "rocketmq.namespace": "RocketMQ's namespace.",
        "rocketmq.tag": "The tag of each message.",
    }
    return own.get(key) or texts.get(key, "")


def type_of(annotation: Any) -> str:
    """Return a type as people read it."""
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is dict:
        return "mapping"
    if origin is Callable:
        return "mapping or text"
    if origin in (list, tuple, frozenset):
        return "list"
    if arguments and hasattr(annotation, "__metadata__"):
        return type_of(arguments[0])
    if arguments:
        named = (type_of(one) for one in arguments if one is not NoneType)
        return " or ".join(dict.fromkeys(named))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{one.value}`" for one in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    names = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path", SecretStr: "secret"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Enum):
        value = value.value
    if field.default_factory is not None or isinstance(value, BaseModel) or value in (None, "", (), [], {}):
        return ""
    if isinstance(value, tuple):
        value = ", ".join(map(str, value))
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def defs_keys() -> Iterator[tuple[str, FieldInfo]]:
    """Yield each key of defs.yaml by its path: `{name}` stands for a name of yours, `[]` for each item of a list."""
    yield from _keys(Settings, "")


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield prefix + name, field
        for inner, step in _models(field.annotation, ""):
            yield from _keys(inner, f"{prefix}{name}{step}.")


def _models(annotation: Any, step: str) -> Iterator[tuple[type[BaseModel], str]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, step
    more = {dict: ".{name}", list: "[]"}.get(get_origin(annotation), "")
    for one in get_args(annotation):
        yield from _models(one, step + more)


def defs_texts() -> dict[str, str]:
    """Return what each key of defs.yaml means."""
    found: dict[str, str] = yaml.safe_load((ROOT / "scripts" / "defs_keys.yaml").read_text())
    return found


def _defs() -> str:
    texts = defs_texts()
    rows = [(f"`{key}`", type_of(one.annotation), _default(one), texts[key]) for key, one in defs_keys()]
    example = (ROOT / "orchestration" / "defs" / "example.yaml").read_text()
    return (
        "# Keys of defs.yaml\n\n"
        + _MADE
        + "All keys are under `attributes`. `{name}` stands for a name or a pattern of"
        " yours, `[]` for each item of a list.\n\n"
        + _table("key|type|default|meaning", rows)
        + f"\n## An example\n\n```yaml\n{example}```\n"
    )


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command of `sluice` with its whole name."""
    yield from _under(typer.main.get_command(app), "sluice")


def _under(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for word, one in sorted((inner or {}).items()):
        yield from _under(one, f"{name} {word}")


def _commands() -> str:
    parts = [
        "# Commands\n\n" + _MADE,
        "Each command has `--help`. Exit codes: 0 done, 1 failed, 2 bad usage. An error says what is wrong, where, and"
        " what\nto do; with `--json` as one JSON object.\n",
    ]
    for name, command in commands():
        rows = [_parameter(one) for one in command.params if one.name != "help"]
        text = "\n".join(line.strip() for line in str(command.help).splitlines())
        parts.append(f"\n## {name}\n\n{text}\n\n" + (_table("option|default|meaning", rows) if rows else ""))
    return "".join(parts)


def _parameter(one: Any) -> tuple[str, str, str]:
    if one.param_type_name == "argument":
        shown = f"`{(one.metavar or one.name or '').upper()}{'...' if one.nargs == -1 else ''}`"
    else:
        shown = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
    unset = one.required or callable(one.default) or one.default in (None, "", (), [], False)
    default = "required" if one.required else "" if unset else f"`{getattr(one.default, 'value', one.default)}`"
    variable = f" Environment: `{one.envvar}`." if getattr(one, "envvar", None) else ""
    text = str(getattr(one, "help", None) or "").replace("|", "\\|")
    return shown, default, text + variable


def _metrics() -> str:
    canal = [(f"canal_instance_{name}", kind, text) for name, kind, _, text in metrics._CANAL]
    ours = [(f"sluice_{name}" + "_total" * (kind == "counter"), kind, text) for name, kind, text in metrics._OURS]
    others = [*metrics._infos({}, {}), metrics._holders({}), *metrics._clients({})]
    rows = [*canal, *ours, *((one.name, one.type, one.documentation) for one in others)]
    stages = metrics._stages({})
    rows.append((f"{stages.name}_total", stages.type, f"{stages.documentation} (label `stage`)"))
    return (
        "# Metrics\n\n" + _MADE + "`/metrics` of the service, for Prometheus. Each has the label `destination`. When"
        " to raise an alarm:\n[Operations](../operations.md#metrics).\n\n"
        + _table("metric|type|meaning", [(f"`{name}`", kind, text) for name, kind, text in sorted(rows)])
        + "\n## The monitor\n\n`/metrics` of `sluice monitor`: [The monitor](../monitor.md).\n\n"
        + _table("metric|type|meaning", [(f"`sluice_monitor_{name}`", "gauge", text) for name, text in METRICS])
    )


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
