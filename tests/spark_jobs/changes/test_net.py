"""Net changes of random images, in Spark and in Arrow, against a plain loop over the images."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.changes.columns import DELETE, EPOCH, INSERT, NTH, OP, UPDATE_AFTER, UPDATE_BEFORE, VERSION
from spark_jobs.changes.in_order import in_order
from spark_jobs.changes.net import ImageQuery, repeated
from spark_jobs.lake.types import COUNT, LakeColumn
from spark_jobs.session import Sessions

# Spark calls what `explode` gives `col`, and a column of the source may have that name.
COLUMNS = (LakeColumn("a", "int"), LakeColumn("b", "string"), LakeColumn("col", "double"))
SCHEMA = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.string(),
        "col": pa.float64(),
        OP: pa.string(),
        EPOCH: pa.int32(),
        VERSION: pa.int64(),
        NTH: pa.int64(),
    }
)
THERE = (INSERT, UPDATE_AFTER)
Image = dict[str, Any]

images = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.integers(0, 2),
            "b": st.sampled_from(["x", "X", "x ", ""]),
            "col": st.sampled_from([0.0, -0.0, 1.5, None]),
            OP: st.sampled_from([*THERE, DELETE, UPDATE_BEFORE]),
            EPOCH: st.integers(0, 1),
            VERSION: st.integers(0, 3),
        }
    ),
    min_size=1,
    max_size=60,
).map(lambda drawn: [one | {NTH: nth} for nth, one in enumerate(drawn)])


def shown(values: Sequence[Any]) -> tuple[Any, ...]:
    """Tells -0.0 from 0.0."""
    return tuple((one, math.copysign(1, one)) if isinstance(one, float) else one for one in values)


def row(image: Image) -> tuple[Any, ...]:
    return shown([image["a"], image["b"], image["col"]])


def last(drawn: Sequence[Image]) -> dict[tuple[Any, ...], Image]:
    found = {}
    for one in sorted(drawn, key=lambda one: (one[EPOCH], one[VERSION], one[NTH])):
        found[one["a"], one["b"]] = one
    return found


def copies(drawn: Sequence[Image]) -> Counter[tuple[Any, ...]]:
    found = Counter[tuple[Any, ...]]()
    for one in drawn:
        found[row(one)] += 1 if one[OP] in THERE else -1
    return found


@given(images)
def test_arrow_finds_the_last_image_of_each_key(drawn: list[Image]) -> None:
    """In the order of epoch, version and place, whatever the order in the log, and whether it leaves a row."""
    found = in_order(pa.Table.from_pylist(drawn[::-1], SCHEMA), ["a", "b"])
    assert found is not None
    chosen = found.rows.take(pa.array(found.order[found.last])).to_pylist()
    assert {(one["a"], one["b"]): one[NTH] for one in chosen} == {key: one[NTH] for key, one in last(drawn).items()}
    assert [one[OP] in THERE for one in chosen] == found.there[found.last].tolist()
    assert found.first.sum() == found.last.sum() == len(chosen)


@pytest.mark.integration
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images)
def test_spark_finds_the_same(sessions: Sessions, drawn: list[Image]) -> None:
    """By key the last image, without one the counts that are not 0; and rows with the changes over them."""
    with sessions.take() as spark:
        spark.createDataFrame(pa.Table.from_pylist(drawn, SCHEMA)).createOrReplaceTempView("drawn")
        keyed, keyless = ImageQuery("drawn", COLUMNS, ("a", "b")), ImageQuery("drawn", COLUMNS, ())
        one_each = {tuple(one): one for one in spark.sql(f"SELECT * FROM {keyed.net()}").collect()}
        there = f"(SELECT * FROM {keyless.net()} WHERE {COUNT} > 0)"
        again = Counter(shown(one) for one in spark.sql(f"SELECT * FROM {repeated(there, COLUMNS)}").collect())
        counts = spark.sql(f"SELECT a, b, col, {COUNT} FROM {keyless.net()}").collect()
        before = "(SELECT explode(array(0, 9)) AS a, 'x' AS b, CAST(2.5 AS DOUBLE) AS col)"
        over = [shown(one) for one in spark.sql(keyed.over(before, COLUMNS)).collect()]
        grown = ImageQuery("drawn", COLUMNS, (), f"{OP} IN ('{INSERT}', '{UPDATE_AFTER}')")
        more = Counter(shown(one) for one in spark.sql(grown.over(before, COLUMNS)).collect())

    expected = last(drawn)
    assert {(*shown(one[:3]), one[3]) for one in one_each} == {
        (*row(one), 1 if one[OP] in THERE else 2) for one in expected.values()
    }
    assert {shown(one[:3]): one[3] for one in counts} == {key: n for key, n in copies(drawn).items() if n}
    assert again == +copies(drawn)
    kept = [shown((a, "x", 2.5)) for a in (0, 9) if (a, "x") not in expected]
    assert Counter(over) == Counter([*kept, *(row(one) for one in expected.values() if one[OP] in THERE)])
    came = [one for one in drawn if one[OP] in THERE]
    assert more == copies(came) + Counter(shown((a, "x", 2.5)) for a in (0, 9))
