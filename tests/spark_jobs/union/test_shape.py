"""spark_jobs.union.shape: the columns of a union."""

from __future__ import annotations

import pytest
from deltalake import Field
from deltalake.schema import PrimitiveType

from spark_jobs.union.shape import shape


def fields(**types: str) -> list[Field]:
    return [Field(name, PrimitiveType(kind)) for name, kind in types.items()]


def types(found: tuple[Field, ...]) -> dict[str, str]:
    return {one.name: one.type.type for one in found}


def test_a_union_has_every_column_of_its_shards() -> None:
    """In the order of the first that has it; those that say whose a row is are last."""
    found = shape([], {"a": fields(id="long", v="string"), "b": fields(id="long", w="date", v="string")}, ["shop"])
    assert types(found.fields) == {"id": "long", "v": "string", "w": "date", "shop": "string"}
    assert not found.unfit


def test_columns_of_a_union_stay() -> None:
    """Also where the last shard that had one has dropped it, and whatever the order of the shards'."""
    there = fields(id="long", old="string", shop="string")
    found = shape(there, {"a": fields(new="date", id="long")}, ["shop"])
    assert types(found.fields) == {"id": "long", "old": "string", "new": "date", "shop": "string"}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("integer", "long", "long"),
        ("long", "byte", "long"),
        ("short", "integer", "integer"),
        ("float", "double", "double"),
    ],
)
def test_the_widest_number_wins(one: str, other: str, both: str) -> None:
    """Whichever shard is altered first."""
    assert types(shape([], {"a": fields(n=one), "b": fields(n=other)}, ["shop"]).fields)["n"] == both
    assert types(shape(fields(n=one, shop="string"), {"b": fields(n=other)}, ["shop"]).fields)["n"] == both


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (Field("n", PrimitiveType("string")), "'n' is string, and int in the union"),
        (Field("n", PrimitiveType("double")), "'n' is double, and int in the union"),
        (Field("N", PrimitiveType("integer")), "'N' is 'n' in the union"),
        (Field("Shop", PrimitiveType("string")), "'Shop' has the name of a column that says whose"),
    ],
)
def test_a_shard_that_does_not_fit_is_left_out(column: Field, said: str) -> None:
    """The others' columns are in the union."""
    found = shape([], {"a": fields(n="integer"), "b": [*fields(other="date"), column], "c": fields(m="date")}, ["shop"])
    assert types(found.fields) == {"n": "integer", "m": "date", "shop": "string"}
    assert list(found.unfit) == ["b"]
    assert said in found.unfit["b"]


def test_comments_come_along() -> None:
    """Other metadata of a shard's column does not."""
    column = Field("n", PrimitiveType("long"), nullable=False, metadata={"comment": "c", "delta.x": "y"})
    (found, _) = shape([], {"a": [column]}, ["shop"]).fields
    assert (found.nullable, dict(found.metadata)) == (True, {"comment": "c"})
