"""The pages in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from orchestration.stack.prerequisites import need_chromium
from tests.door_double import TABLE, Instance, Server, opened

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=need_chromium(), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails the test when its console shows an error, and that reaches nothing but loopback."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if "//127.0.0.1" in request.url else faults.append(request.url))
    page.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    yield page
    context.close()
    assert faults == []


def busy() -> Instance:
    """An instance with something of everything."""
    instance = Instance(cursor=EntryPosition("mysql-bin.000003", 1547))
    instance.numbers["reconnects"] = 2
    instance.put(1200)
    instance.claim(1001, 10_000, 0, "run-4f1c", 60)
    return instance


def test_status_shows_what_an_operator_needs(page: Page) -> None:
    """State, source, positions, ring, clients and claims are on the page."""
    with opened(HttpDoor(Server(busy(), Instance("billing")), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        shop = page.locator("[data-destination=shop]")
        for text in ("running", "127.0.0.1:3306", "8.0.31", "connected", "2 reconnects", "mysql-bin.000003:9000"):
            expect(shop).to_contain_text(text)
        for text in ("900 / 500 / 400", "Client 1001", "mysql-bin.000003:1547", "run-4f1c", "left"):
            expect(shop).to_contain_text(text)
        assert float(shop.locator("progress").get_attribute("value") or 0) == pytest.approx(53.6, abs=0.1)
        expect(page.locator("[data-destination=billing]")).to_be_visible()


def test_the_start_and_what_it_lost(page: Page) -> None:
    """The rule by which reading began; loudly, when rows were given up."""
    instance = busy()
    instance.binlog = {"oldest": "mysql-bin.000001", "clients": {}, "warning": "may be purged in 1.0 h"}
    chosen = EntryPosition("mysql-bin.000002", 157).to_dict()
    instance.start = {
        "rule": "the last position",
        "looked_at": "cursor mysql-bin.000002:157 of db:3306",
        "chosen": chosen,
        "seconds": 0.02,
        "lost": None,
    }
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.locator("[data-destination=shop]")).to_contain_text("Began at mysql-bin.000002:157: the last")
        expect(page.get_by_role("alert").filter(has_text="Binlog expiry")).to_contain_text("purged in 1.0 h")
        instance.start = instance.start | {"lost": "the journal mysql-bin.000001 was purged"}
        page.goto(door.url)
        expect(page.get_by_role("alert").filter(has_text="Rows were lost")).to_contain_text("was purged")


def test_an_error_shows_with_its_remedy_and_without_a_reload(page: Page) -> None:
    """What happens after the page was opened appears by itself, and goes by itself."""
    instance = busy()
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)
        instance.state, instance.connected = "failed", False
        instance.error = {
            "error": "PositionError",
            "message": "the binlog <b>was</b> purged",
            "place": "mysql-bin.000001:4",
            "hint": "Take a new snapshot.",
            "since": 1_700_000_000.0,
        }
        instance.stop_table(1001, TABLE, "a column changed", "Rebuild it.", EntryPosition("mysql-bin.000003", 77))
        alert = page.get_by_role("alert").filter(has_text="PositionError")
        expect(alert).to_contain_text("the binlog <b>was</b> purged", timeout=6000)
        expect(alert).to_contain_text("Remedy: Take a new snapshot.")
        expect(alert).to_contain_text("mysql-bin.000001:4")
        expect(page.get_by_text("not connected")).to_be_visible()
        expect(page.get_by_role("alert").filter(has_text="shop.orders stopped")).to_contain_text("Rebuild it.")
        instance.error = None
        expect(alert).to_have_count(0, timeout=6000)


def test_a_service_that_went_away_is_said(page: Page) -> None:
    """The page does not show old figures as if they were new."""
    door = HttpDoor(Server(busy()), "127.0.0.1", 0)
    with opened(door):
        page.goto(door.url)
    expect(page.locator("#away")).to_contain_text("does not answer", timeout=8000)
    expect(page.locator("#away")).to_be_visible()
    with opened(HttpDoor(Server(busy()), "127.0.0.1", door.port)):
        expect(page.locator("#away")).to_be_hidden(timeout=8000)


def test_links_lead_to_calls_and_metrics(page: Page) -> None:
    """The API page and the metrics are one click away."""
    with opened(HttpDoor(Server(busy()), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        page.get_by_role("link", name="API").click()
        expect(
            page.get_by_text("/v1/destinations/{destination}/clients/{client_id}/claims", exact=True)
        ).to_be_visible()
        page.go_back()
        page.get_by_role("link", name="Metrics").click()
        expect(page.locator("body")).to_contain_text("canal_instance_put_rows")


def test_a_browser_opens_the_page_with_the_token_as_password(browser: Browser) -> None:
    """With a token the page asks for it, and then refreshes by itself."""
    instance = busy()
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0, "s3cret")) as door:
        refused = browser.new_page()
        with pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            refused.goto(door.url)
        context = browser.new_context(http_credentials={"username": "me", "password": "s3cret"})
        page = context.new_page()
        page.goto(door.url)
        instance.state = "starting"
        expect(page.locator(".state")).to_have_text("starting", timeout=6000)
        context.close()
        refused.close()


def test_markup_in_a_name_stays_text(page: Page) -> None:
    """An owner that looks like markup is shown as text."""
    instance = Instance()
    instance.put(1)
    instance.claim(1001, 1, 0, "<script>alert(1)</script>", 60)
    with opened(HttpDoor(Server(instance), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
        policy = httpx.get(door.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_claims_lease_counts_down(page: Page) -> None:
    """The lease shown shrinks as time goes by."""
    with opened(HttpDoor(Server(busy()), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        before = page.locator("td").nth(2).inner_text()
        time.sleep(4.5)
        assert page.locator("td").nth(2).inner_text() != before
