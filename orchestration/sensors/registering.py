"""The sensor that looks whether the catalog may lack a table of the lake, and starts a run that registers it.

It reads the lake's folders and a note, and asks neither Spark nor the catalog. A catalog that is down makes runs fail,
ever more seldom, until it answers; batches go on meanwhile.
"""

from __future__ import annotations

import time

import dagster as dg

from cdc_core.errors import SluiceError
from orchestration.internals import kept_instance
from orchestration.jobs.by_hand import run_config, tag_of
from orchestration.resources import LakeResource
from orchestration.sensors.round import Round
from orchestration.sensors.runs import hash_of, recent
from orchestration.settings import Settings
from orchestration.verbs.orders import Register
from spark_jobs.catalog.notes import CatalogNotes
from spark_jobs.catalog.standing import owed

_INTERVAL = 30  # seconds: a tick takes 10 ms of the code server for 500 tables


def registering_sensor(
    settings: Settings, job: dg.JobDefinition, resource: LakeResource, shared: Round
) -> dg.SensorDefinition:
    """Level-triggered, as the sensor on the backlog is."""
    rules = settings.catalog_rules
    assert rules is not None

    @dg.sensor(
        name=f"{job.name}_needed",
        job=job,
        minimum_interval_seconds=max(_INTERVAL, settings.trigger.interval_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts a run when the catalog {rules.catalog} may lack a table of {settings.destination}.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        instance = kept_instance(context)
        shared.fail_gone(context, instance)
        lake = resource.lake
        try:
            noted = CatalogNotes(lake, settings.destination, settings.client_id).read()
            why = owed(lake, rules, noted)
        except SluiceError as error:
            return dg.SkipReason(f"the lake is unavailable: {error}")
        if not why and noted.again:
            left = noted.again - time.time()
            return dg.SkipReason(f"some tables could not be registered; next try in {left:.0f} s")
        if not why:
            return dg.SkipReason(f"the catalog {rules.catalog} has the lake's tables")
        runs = recent(instance, {tag_of(Register): settings.destination})
        if reason := runs.held_up("registration", time.time()):
            return dg.SkipReason(reason)
        return dg.RunRequest(
            run_key=f"{settings.destination}:{runs.key}:{hash_of(why)}", run_config=run_config(job.name, reason=why)
        )

    return sensor
