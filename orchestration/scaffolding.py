"""`dg scaffold defs orchestration.destination.CdcDestination NAME`: the first `defs.yaml` of a destination."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import BaseModel, Field


class Scaffolded(BaseModel):
    """What `dg scaffold defs` asks for; without it the values come from the environment."""

    destination: str = Field(default="", description="Its name at the service; by default that of the folder.")
    lake: str = Field(default="{{ env.SLUICE_LAKE }}", description="Path or URI of the lake.")
    service: str = Field(default="", description="The service's address, as http://127.0.0.1:11112.")
    spark: str = Field(default="", description="URL of Spark Connect, as sc://127.0.0.1:15002.")


class DestinationScaffolder(dg.Scaffolder[Scaffolded]):
    @classmethod
    def get_scaffold_params(cls) -> type[Scaffolded]:
        return Scaffolded

    def scaffold(self, request: dg.ScaffoldRequest[Scaffolded]) -> None:
        given = request.params or Scaffolded()
        attributes: dict[str, Any] = {"destination": given.destination or request.target_path.name, "lake": given.lake}
        attributes |= {"service": {"http": given.service}} if given.service else {}
        attributes |= {"spark": given.spark} if given.spark else {}
        dg.scaffold_component(request, attributes)
