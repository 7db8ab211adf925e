"""Dagster's launchpad, run page and asset history in a real browser, as a user goes through them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from playwright.sync_api import Locator, Page, expect, sync_playwright

from orchestration.stack.prerequisites import need_chromium

PATIENCE = 600_000  # milliseconds, for a page or a run on a loaded machine


class Launchpad:
    """One browser that has never been here before. `url` is Dagster's."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self._url = url

    def open(self, job: str) -> None:
        """Shows the launchpad of a job, with its form."""
        self.page.goto(f"{self._url}/locations/sluice/jobs/{job}/playground")
        expect(self._line("reason")).to_be_visible(timeout=PATIENCE)

    def fields(self) -> list[str]:
        """The lines of the form, as they stand there."""
        lines = self.page.locator(".CodeMirror-line").all_inner_texts()
        return [line.strip("\u200b ") for line in lines if line.strip("\u200b ")]

    def fill(self, field: str, value: str) -> None:
        """Types over a field's line, key by key."""
        self._line(field).click()
        self.page.keyboard.press("Home")
        self.page.keyboard.press("Shift+End")
        self.page.keyboard.type(f"{field}: {value}")
        self.page.keyboard.press("Escape")  # the list of completions
        expect(self._line(field)).to_contain_text(value, timeout=PATIENCE)

    @property
    def button(self) -> Locator:
        return self.page.get_by_role("button", name="Launch Run")

    def start(self) -> str:
        """Launches a run, and returns its id when its page is shown."""
        expect(self.button).to_be_enabled(timeout=PATIENCE)
        self.button.click()
        self.page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
        return self.page.url.rpartition("/runs/")[2][:36]

    def launch(self) -> str:
        """The same, when the page shows that the run has ended."""
        run_id = self.start()
        ended = self.page.get_by_text(re.compile(r"^(Success|Failure)$"))
        expect(ended.first).to_be_visible(timeout=PATIENCE)
        return run_id

    def shows(self, *texts: str) -> None:
        """Waits until all these are on the page."""
        for text in texts:
            expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE)

    def history(self, key: dg.AssetKey) -> None:
        """Shows the events of an asset, the last one with its metadata."""
        self.page.goto(f"{self._url}/assets/{'/'.join(key.path)}?view=events")

    def check(self, key: dg.AssetKey, name: str) -> None:
        """Shows a check of an asset, with its last result."""
        self.page.goto(f"{self._url}/assets/{'/'.join(key.path)}?view=checks&checkDetail={name}")

    def _line(self, field: str) -> Locator:
        return self.page.locator(".CodeMirror-line", has_text=re.compile(rf"^\s*{field}:")).first


@contextmanager
def browser(url: str, picture: Path) -> Iterator[Launchpad]:
    """A launchpad whose waits are patient. It leaves a picture of the last page."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=need_chromium(), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1500, "height": 1200})
        page.set_default_timeout(PATIENCE)
        page.set_default_navigation_timeout(PATIENCE)
        yield Launchpad(page, url)
        page.screenshot(path=picture)
        chromium.close()
