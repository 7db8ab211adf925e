"""A verb's model, and the command and the job that are made of it."""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from orchestration.cli import app
from orchestration.jobs.by_hand import job_of
from orchestration.settings import Settings
from orchestration.verbs.orders import JOBS, Cli, Ddl, Order, Reset

COMMANDS = {order.VERB: order for order in JOBS if order is not Ddl}


def fields_of(order: type[Order]) -> dict[str, Any]:
    """The configuration of the verb's job."""
    job = job_of(order, Settings(destination="shop", lake="/lake"))
    (node,) = job.graph.nodes
    return dict(node.definition.config_schema.config_type.fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize("order", JOBS)
def test_a_job_has_the_fields_of_its_model(order: type[Order]) -> None:
    """In their order, after the reason, with their descriptions and defaults."""
    found = fields_of(order)
    assert list(found) == ["reason", *order.model_fields]
    for name, field in order.model_fields.items():
        assert found[name].description == field.description
        assert found[name].is_required == field.is_required()
        assert field.is_required() or found[name].default_value == field.default


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_fields_of_its_model(name: str) -> None:
    """With their descriptions and defaults; a flag that ends the dry run is the reverse of the job's field."""
    command = next(one.callback for one in app.registered_commands if one.name == name)
    assert command is not None
    parameters = inspect.signature(command).parameters
    for field, info in COMMANDS[name].model_fields.items():
        cli = next((one for one in info.metadata if isinstance(one, Cli)), Cli())
        parameter = parameters[cli.argument or field]
        assert parameter.annotation.__metadata__[0].help == info.description
        if not info.is_required():
            assert (parameter.default or None) == (info.default or None)
    if "dry_run" in COMMANDS[name].model_fields:
        assert parameters["dry_run"].annotation.__metadata__[0].default == "--dry-run/--yes"


def test_a_verb_has_one_name() -> None:
    """As a command, as a job and in the history of an asset; its module is called so too."""
    for order in JOBS:
        name = job_of(order, Settings(destination="shop", lake="/lake")).name
        assert name == f"{order.__name__.lower()}_shop" == f"{order.VERB}_shop"
        assert importlib.util.find_spec(f"orchestration.verbs.{order.VERB}") is not None
        commands = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}
        assert order.VERB in commands


def test_the_first_batch_is_a_place() -> None:
    """Its number is 0. A flag that is not set is no place."""
    assert Reset(batch=0).batch == 0
    with pytest.raises(ValidationError, match="not exactly one place"):
        Reset(earliest=False)


@pytest.mark.parametrize(("field", "text"), [("position", "bin.000001"), ("timestamp", "yesterday")])
def test_a_place_that_is_malformed_is_named_with_its_form(field: str, text: str) -> None:
    """Also where there is exactly one."""
    with pytest.raises(ValidationError, match=f"{field} is no.*; write it as in"):
        Reset(**{field: text})


@pytest.mark.parametrize("order", [order for order in JOBS if order.POOL == "drain"])
def test_a_job_that_takes_turns_with_the_drain_promises_no_more(order: type[Order]) -> None:
    """The destination does not go on while such a job runs, and its description says so once."""
    description = job_of(order, Settings(destination="shop", lake="/lake")).description or ""
    assert "takes turns with the runs that drain" in description
    assert "stination goes on" not in description
