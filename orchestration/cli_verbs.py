"""The commands of the verbs, made of their models: `sluice copy`, `snapshot`, `remake`, `register`, `maintain`,
`verify`, `undo`, `redo`, `replay`, `restore`, `reset`, `pause`, `resume`, `rollback` and `ddl`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from orchestration.options import (
    LOCAL,
    Client,
    Conf,
    Defs,
    Json,
    LakeRoot,
    Name,
    Reason,
    ServiceOrConf,
    Spark,
    SparkToken,
    Token,
    Url,
)
from orchestration.verbs.orders import (
    Accept,
    Cli,
    Copy,
    Ddl,
    Drop,
    Maintain,
    Order,
    Pause,
    Redo,
    Register,
    Remake,
    Replay,
    Requeue,
    Reset,
    Restore,
    Resume,
    Rollback,
    Snapshot,
    Undo,
    Verify,
)

_EXIT = "Exit code 1: a table could not be done, or is not as it should be."
_SERVICE: dict[str, Any] = {"service": (Url, LOCAL), "token": (Token, "")}
_CONF = {"conf": (Conf, Path("conf")), "client": (Client, 1001), "service": (ServiceOrConf, None), "token": (Token, "")}
_SPARK = {"spark": (Spark, "sc://127.0.0.1:15002"), "spark_token": (SparkToken, "")}
_LAKE = {"lake": (LakeRoot, ...)}
_ALL = {**_LAKE, **_CONF, **_SPARK}

Parameters = Mapping[str, tuple[Any, Any]]
"""By name, the type of a parameter with typer's notes, and its default."""


def add_verbs(app: typer.Typer) -> None:
    """Adds the commands of the verbs."""
    app.command("copy")(_command(Copy, _ALL))
    app.command("snapshot")(_command(Snapshot, _ALL))
    app.command("remake")(_command(Remake, {**_LAKE, "client": (Client, 1001), **_SPARK}))
    app.command("register")(_command(Register, {**_LAKE, "client": (Client, 1001), **_SPARK}))
    app.command("maintain")(_command(Maintain, {**_ALL, "defs": (Defs, None)}))
    one = Annotated[str | None, typer.Option(help="One destination. Default: all of the configuration.")]
    app.command("verify")(_command(Verify, {"destination": (one, None), **_ALL}))
    noted = {"reason": (Reason, ""), **_ALL}
    for order in (Undo, Redo, Replay, Restore):
        app.command(order.VERB)(_command(order, noted))
    some_lake = Annotated[str | None, typer.Option(envvar="SLUICE_LAKE", help="The lake, for --batch and the like.")]
    client = Annotated[int, typer.Option("--client-id", min=0, help="The client whose cursor is set.")]
    app.command("reset")(_command(Reset, {"client": (client, 1001), "lake": (some_lake, None), **_SERVICE}))
    why = Annotated[str, typer.Option(help="Why: it is recorded.", show_default=False)]
    asked = {"reason": (why, ...), "client": (Client, 1001), **_SERVICE}
    app.command("pause")(_command(Pause, asked))
    lake = Annotated[str | None, typer.Option(envvar="SLUICE_LAKE", help="The lake, for a table that is copied.")]
    app.command("resume")(_command(Resume, {"lake": (lake, None), **_CONF, **_SPARK}))
    app.command("rollback")(_command(Rollback, asked))
    app.command("accept")(_command(Accept, {"reason": (why, ...), "lake": (lake, None), **_CONF, **_SPARK}))
    waiting = {"reason": (why, ...), **_ALL}
    app.command("requeue")(_command(Requeue, waiting))
    app.command("drop")(_command(Drop, waiting))
    ddl = typer.Typer(help="DDL statements that wait for approval (policy `ask`).", no_args_is_help=True)
    ddl.command("list")(_waiting)
    approve = "Approve waiting statements: their tables are reloaded with the source's present columns and rows."
    ddl.command("approve", help=approve)(_command(Ddl, _ALL, decision="approve"))
    reject = "Reject waiting statements: their tables stay as they were, and stay stopped with that reason."
    ddl.command("reject", help=reject)(_command(Ddl, {"reason": (Reason, ""), **_CONF}, decision="reject"))
    app.add_typer(ddl, name="ddl")


def _waiting(
    name: Name,
    conf: Conf = Path("conf"),
    client: Client = 1001,
    service: ServiceOrConf = None,
    token: Token = "",
    as_json: Json = False,
) -> None:
    """Show the tables that wait, each with its statement."""
    from orchestration.commands.ddl import show
    from orchestration.commands.verb import access_of

    at = access_of(name, conf=conf, client=client, service=service, token=token)
    raise typer.Exit(show(at, as_json=as_json))


def _command(order: type[Order], access: Parameters, **fixed: Any) -> Callable[..., None]:
    """Return a command whose parameters are the fields of the model that are not `fixed`, and those of `access`."""
    shown = {name: field for name, field in order.model_fields.items() if name not in fixed}
    names = {_cli(field).argument or name: name for name, field in shown.items()}
    parameters: dict[str, tuple[Any, Any]] = {} if "destination" in access else {"name": (Name, ...)}
    parameters |= {written: _parameter(name, shown[name]) for written, name in names.items()}
    parameters |= {**access, "as_json": (Json, False)}

    def command(**values: Any) -> None:
        as_json = values.pop("as_json")
        given = {field: value for written, field in names.items() if (value := values.pop(written)) is not None}
        try:
            asked = order(**given, **fixed)
        except ValidationError as error:
            raise _bad_usage(error, shown) from error
        raise typer.Exit(_run(asked, values, as_json=as_json))

    command.__doc__ = _unwrapped(f"{order.__doc__}\n\n{_EXIT}" if "tables" in shown else str(order.__doc__))
    command.__annotations__ = {name: kind for name, (kind, _) in parameters.items()}
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind,
                default=inspect.Parameter.empty if default is ... else default,
            )
            for name, (kind, default) in parameters.items()
        ]
    )
    return command


def _unwrapped(text: str) -> str:
    """Returns each paragraph in one line, as typer folds it to the width of the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _run(order: Order, values: dict[str, Any], *, as_json: bool) -> int:
    from orchestration.commands.verb import access_of, run, run_everywhere

    reason = values.pop("reason", "")
    name = values.pop("name", None) or values.pop("destination", None)
    if name is None:
        return run_everywhere(order, as_json=as_json, **values)
    values.pop("destination", None)
    if defs := values.pop("defs", None):
        from orchestration.loading import load_settings

        values["declared"] = load_settings(defs, name, values["client"])
    return run(order, access_of(name, **values), as_json=as_json, reason=reason)


def _cli(field: FieldInfo) -> Cli:
    return next((one for one in field.metadata if isinstance(one, Cli)), Cli())


def _parameter(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """The type and default of a field's parameter. Lists that may be empty are optional."""
    cli, kind = _cli(field), field.annotation
    least = next((one.ge for one in field.metadata if hasattr(one, "ge")), None)
    default = ... if field.is_required() else field.default
    if default == []:
        kind, default = list[str] | None, None
    shows = default not in (None, "", False)
    flag = cli.flag or f"--{name.replace('_', '-')}"
    about: dict[str, Any] = {"help": field.description, "show_default": shows, "min": least, "metavar": cli.metavar}
    note = typer.Argument(**about) if cli.argument else typer.Option(flag, **about)
    return Annotated[kind, note], default


def _bad_usage(error: ValidationError, shown: Mapping[str, FieldInfo]) -> typer.BadParameter:
    """The first wrong field by its name in the terminal."""
    first = error.errors()[0]
    words = first["msg"].removeprefix("Value error, ")
    field = str(first["loc"][0]) if first["loc"] else ""
    cli = _cli(shown[field]) if field in shown else Cli()
    hint = cli.argument or cli.flag or (f"--{field.replace('_', '-')}" if field else None)
    return typer.BadParameter(words, param_hint=hint)
