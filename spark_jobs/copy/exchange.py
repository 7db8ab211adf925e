"""All files of a table that is there exchanged for others, in one commit of delta-rs.

The commit stands on the very version that was looked at: fenced by this run, with the definition that the new rows
have, before the copy's mark. Where another commit came in between, nothing is written. The mark is noted before it, so
that the table is where it was also while its other properties are those of the old rows. History and properties stay,
and files go with their deletion vectors. Tables with features that say more of their files are left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from spark_jobs.copy.commit import Replacement
from spark_jobs.copy.result import WentOn
from spark_jobs.lake.record import marked_property
from spark_jobs.lake.state import FENCE

_FEATURES = {"appendOnly", "deletionVectors", "invariants", "timestampNtz", "variantType"}  # the last by delta-rs
_BY_FEATURES = 7  # the protocol of writers that lists its features
_QUIET = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


def exchangeable(table: DeltaTable, new: Replacement) -> bool:
    """Whether the table's definition is that of the new rows, and no feature asks more of files than their names."""
    state, protocol, metadata = new.state, table.protocol(), table.metadata()
    if state is None or state.dropped or state.unfilled or metadata.partition_columns:
        return False
    if (state.columns, state.comment) != (new.columns, new.schema.comment):
        return False
    if any(not field.nullable or field.metadata.keys() - {"comment"} for field in table.schema().fields):
        return False
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    known = protocol.min_writer_version == _BY_FEATURES and features <= _FEATURES
    return (known or protocol.min_writer_version <= 2) and metadata.configuration.get("delta.appendOnly") != "true"


def exchange(table: DeltaTable, added: Sequence[AddAction], new: Replacement) -> None:
    """Raises WentOn where the table is not as it was, DeltaError and OSError where it cannot be written."""
    target, mark, once = new.target, new.mark.upto, CommitProperties(max_commit_retries=0)
    applied, fence = table.transaction_version(target.app), table.metadata().configuration.get(FENCE)
    if fence != target.fence.token or (applied is not None and applied >= mark) or not exchangeable(table, new):
        raise WentOn(target.path)
    noted = CommitProperties(
        custom_metadata={"userMetadata": new.metadata},
        max_commit_retries=0,
        app_transactions=[Transaction(target.app, mark)],
    )
    try:
        if mark > new.mark.at:
            marked = marked_property(table.metadata().configuration, new.mark)
            table.alter.set_table_properties(marked, raise_if_not_exists=False, commit_properties=once)
        table.create_write_transaction(
            list(added), "overwrite", table.schema(), commit_properties=noted, post_commithook_properties=_QUIET
        )
    except CommitFailedError as error:
        raise WentOn(target.path) from error
