"""The page of a Dagster that the stack has started, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect, sync_playwright

from orchestration.stack.dagster import Dagster
from orchestration.stack.ports import free_port
from orchestration.stack.prerequisites import need_chromium

pytestmark = [pytest.mark.browser, pytest.mark.integration]

COMPONENT = {
    "type": "orchestration.destination.CdcDestination",
    "attributes": {"destination": "shop", "lake": "/nowhere", "tables": ["shop.orders"]},
}


@pytest.fixture
def page() -> Iterator[Page]:
    """A browser that has never been here before."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=need_chromium(), args=["--no-sandbox"])
        yield chromium.new_page(viewport={"width": 1200, "height": 900})
        chromium.close()


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_fresh_instance_shows_its_asset_graph(page: Page, tmp_path: Path) -> None:
    """No newsletter dialog lies over the graph."""
    defs = tmp_path / "defs" / "shop" / "defs.yaml"
    defs.parent.mkdir(parents=True)
    defs.write_text(yaml.safe_dump(COMPONENT))
    started = Dagster(tmp_path / "home", port=free_port(), defs=tmp_path / "defs")
    try:
        started.start()
        page.goto(f"{started.url}/asset-groups")
        expect(page.get_by_text("orders").first).to_be_visible(timeout=60_000)
        page.wait_for_timeout(3_000)  # the dialog would come after the graph
        expect(page.get_by_text("newsletter")).to_have_count(0)
    finally:
        started.stop()
