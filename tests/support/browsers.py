"""A real browser for pages of Sluice's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from orchestration.stack.prerequisites import need_chromium


@contextmanager
def started_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=need_chromium(), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@contextmanager
def strict_page(browser: Browser, width: int) -> Iterator[Page]:
    """A page that fails the test when its console shows an error, and that reaches nothing but loopback."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if "//127.0.0.1" in request.url else faults.append(request.url))
    page.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    yield page
    context.close()
    assert faults == []
