"""Random rules that fit a table: its columns left out, renamed, masked, of another type, others computed from them. All
chance comes from the `Random` that is given."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from cdc_core.errors import TableStopped
from cdc_core.rows.columns.batch import arrow_fields
from cdc_core.rules.table_rule import TableRule
from cdc_core.schema.column_rule import UTC, Cast, Mask, MaskKind, Salt
from cdc_core.schema.table import TableSchema

SALT = "RANDOM_RULES_SALT"
MASKS = (
    Mask(MaskKind.SHA256, salt=Salt(SALT)),
    Mask(MaskKind.NULL),
    Mask(MaskKind.TRUNCATE, 2),
    Mask(MaskKind.KEEP_LAST, 3),
    Mask(MaskKind.CONSTANT, constant="7"),
)
CASTS = (Cast.TINYINT1, Cast.ENUM, Cast.BIT1)
DATETIMES = (Cast.DATETIME_TIMESTAMP, Cast.DATETIME_STRING)
EXPRESSIONS = (  # of one column; each has a value for every row, if the column is of its types
    "CONCAT('<', {0}, '>')", "UPPER(LEFT({0}, 2))", "CHAR_LENGTH({0})", "{0} % 7", "CAST({0} AS CHAR)", "{0} > 0.5",
    "YEAR({0})", "DATE_FORMAT({0}, '%Y-%m %H:%i:%s')", "{0} IS NULL", "{0}->>'$[0]'",
    "CASE WHEN {0} IS NULL THEN 'none' WHEN {0} > 0 THEN CAST({0} AS CHAR) END",
)  # fmt: skip
ZONES = (UTC, "Etc/GMT+5")  # without a time that it does not have


def rule_for(rng: Random, schema: TableSchema) -> TableRule:
    """A rule that fits the table. Of what is drawn, that is left out which does not fit."""
    datetimes, zone = rng.choice([(), *((one,) for one in DATETIMES)]), rng.choice(ZONES)
    zone = zone if Cast.DATETIME_TIMESTAMP in datetimes else UTC
    rule = TableRule(casts=(*(cast for cast in CASTS if rng.random() < 0.5), *datetimes), zone=zone)
    rule = rule if fits(rule, schema) else TableRule()
    names = [column.name for column in schema.shown]
    for name in rng.sample(names, len(names)):
        drawn = [rule]
        if rng.random() < 0.25:
            drawn.append(replace(rule, exclude=(*rule.exclude, name)))
        else:
            if rng.random() < 0.4:
                rule = replace(rule, rename=(*rule.rename, (name, f"{name} of the lake")))
                drawn.append(rule)
            if rng.random() < 0.5:
                drawn.append(replace(rule, masks=(*rule.masks, (name, rng.choice(MASKS)))))
        rule = next(one for one in reversed(drawn) if fits(one, schema))
    for number, name in enumerate(rng.sample(names, rng.randint(0, min(3, len(names))))):
        drawn_texts = [text.format(f"`{name}`") for text in rng.sample(EXPRESSIONS, len(EXPRESSIONS))]
        more = (replace(rule, computed=(*rule.computed, (f"computed {number}", text))) for text in drawn_texts)
        rule = next((one for one in more if not rule.hides(name) and fits(one, schema)), rule)
    return rule


def fits(rule: TableRule, schema: TableSchema) -> bool:
    """Whether a lake can have the table by this rule."""
    seen = rule.view(schema)
    if seen.defect:
        return False
    try:
        arrow_fields(seen)
    except TableStopped:
        return False
    return True
