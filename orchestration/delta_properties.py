"""Which of Delta's table properties a defs.yaml may set, each with the reason.

What is in neither table below is refused: Sluice applies changes once by what Delta keeps with a table, so a property
is taken only if its effect on that is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_jobs.maintain.retention import LEAST_HOURS

_TAKEN = {
    "delta.autoOptimize.optimizeWrite": "a shuffle before files are written; no commit of its own",
    "delta.checkpoint.writeStatsAsStruct": "statistics in another form as well",
    "delta.checkpointInterval": "how much of the log a reader reads",
    "delta.checkpointRetentionDuration": "the last checkpoint stays",
    "delta.dataSkippingNumIndexedCols": "statistics: without them a MERGE reads more files",
    "delta.dataSkippingStatsColumns": "statistics: without them a MERGE reads more files",
    "delta.dataSkippingStringPrefixLength": "statistics: bounds of texts hold all the same",
    "delta.deletedFileRetentionDuration": "what VACUUM keeps; see `_AT_LEAST`",
    "delta.dropFeatureTruncateHistory.retentionDuration": "for a command that Sluice does not use",
    "delta.enableChangeDataFeed": "Spark and delta-rs write such a table with its feed",
    "delta.enableExpiredLogCleanup": "whether old commits go",
    "delta.enableFullRetentionRollback": "how far back a table can be restored",
    "delta.logRetentionDuration": "how long commits are kept; see `_AT_LEAST`",
    "delta.parquet.format.version": "the readers of a lake's files know both",
    "delta.randomPrefixLength": "names of folders",
    "delta.randomizeFilePrefixes": "names of folders",
}  # by name: what it changes, and why that does no harm

_REFUSED = {
    # Sluice sets these itself.
    "delta.enableDeletionVectors": "Sluice sets it itself: use deletion_vectors",
    "delta.columnMapping.": "Sluice sets it itself: tables get it with the first column that needs it",
    "delta.minReaderVersion": "Sluice sets it itself: features decide it",
    "delta.minWriterVersion": "Sluice sets it itself: features decide it",
    "delta.ignoreProtocolDefaults": "Sluice sets it itself: features decide it",
    "delta.feature.": "Sluice sets it itself: columns and other properties decide it",
    # Delta would forget what it has, or commit what Sluice does not know of.
    "delta.setTransactionRetentionDuration": "tables would forget which changes they have, and get them again",
    "delta.autoOptimize": "Delta would make a second commit after each batch's; sluice maintain joins files",
    "delta.isolationLevel": "Delta's own, Serializable, is what refuses a late writer",
    "delta.redirect": "changes would go to another table",
    "delta.coordinatedCommits.": "delta-rs commits without a coordinator, so commits would replace each other",
    "delta.lastUpdateVersion": "Delta keeps it itself",
    "delta.lastCommitTimestamp": "Delta keeps it itself",
    "delta.requireCheckpointProtectionBeforeVersion": "Delta keeps it itself",
    # Rows of the source would not come in.
    "delta.appendOnly": "rows of the source change; `apply: append` keeps their changes",
    "delta.constraints.": "the lake takes the rows that the source has",
    # delta-rs, by which Sluice reads tables and writes many, cannot have it so.
    "delta.checkpointPolicy": "delta-rs knows the classic checkpoints alone",
    "delta.checkpoint.writeStatsAsJson": "delta-rs reads the numbers of rows there",
    "delta.enableTypeWidening": "delta-rs refuses such a table; Sluice rewrites a column whose type changes",
    "delta.enableVariantShredding": "delta-rs refuses such a table, and no column of MySQL becomes a variant",
    # A reload replaces a table with its properties, and these need others that Delta keeps of one table.
    "delta.enableRowTracking": "a table that is reloaded cannot keep it",
    "delta.rowTracking": "a table that is reloaded cannot keep it",
    "delta.enableInCommitTimestamps": "a table that is reloaded cannot keep it",
    "delta.inCommitTimestamp": "a table that is reloaded cannot keep it",
    "delta.enableIcebergCompat": "it takes column mapping, whose columns delta-rs reads as NULL",
    "delta.universalFormat.": "it takes column mapping, whose columns delta-rs reads as NULL",
}  # by the beginning of a name: the reason, or the remedy

_AT_LEAST = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
_HOURS = {"week": 168.0, "day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600}
_PART = re.compile(r"(\d+) (week|day|hour|minute|second)s?")


def check_properties(rules: Mapping[str, Mapping[str, object]]) -> None:
    """Raises ValueError for properties that are not Delta's, or that Sluice cannot have in a table."""
    for pattern, properties in rules.items():
        for name, value in properties.items():
            if why := _refusal(name, value):
                raise ValueError(f"{pattern}: {name} {why}")


def property_texts(rules: Mapping[str, Mapping[str, str | bool | int]]) -> dict[str, dict[str, str]]:
    """Returns the properties as Delta writes their values."""
    return {
        pattern: {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in one.items()}
        for pattern, one in rules.items()
    }


def _refusal(name: str, value: object) -> str:
    """Returns why the property cannot be set, or ""."""
    if not name.startswith("delta."):
        return "is not a property of Delta's; their names begin with delta."
    if name in _AT_LEAST:
        return _too_short(str(value))
    if name in _TAKEN:
        return ""
    for known in _TAKEN:  # Delta itself ignores the case of a name
        if known.lower() == name.lower():
            return f"is spelled {known}"
    for beginning, why in _REFUSED.items():
        if name.lower().startswith(beginning.lower()):
            return f"is refused: {why}"
    return f"is refused: its effect on a table of Sluice's is not known; known are {', '.join(_TAKEN)}"


def _too_short(text: str) -> str:
    """Returns what is wrong with a time in Delta's form, or ""."""
    said = text.strip().lower().removeprefix("interval ")
    if not re.fullmatch(rf"{_PART.pattern}(?: {_PART.pattern})*", said):
        return 'is not a time such as "interval 30 days"'
    if sum(int(count) * _HOURS[unit] for count, unit in _PART.findall(said)) < LEAST_HOURS:
        return f"is less than {LEAST_HOURS // 24} days: a reader, or a writer that is slow, needs that long"
    return ""
