"""The pages in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, expect

from cdc_core.contract.status import ErrorReport, StartReport
from cdc_core.contract.stopped_table import StoppedTable
from cdc_core.doors.http import HttpDoor
from cdc_core.position import EntryPosition
from cdc_core.source.expiry import ExpiryReport
from tests.support.browsers import started_browser, strict_page
from tests.support.door_double import TABLE, Destination, Server, opened
from tests.support.servers import free_port

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)  # milliseconds


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as one:
        yield one


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with strict_page(browser, 1200) as one:
        yield one


def busy() -> Destination:
    """An destination with something of everything."""
    destination = Destination(cursor=EntryPosition("mysql-bin.000003", 1547))
    destination.numbers["reconnects"] = 2
    destination.put(1200)
    destination.claim(1001, 10_000, 0, "run-4f1c", 60)
    return destination


def test_status_shows_what_an_operator_needs(page: Page) -> None:
    """State, source, positions, ring, clients and claims are on the page."""
    with opened(HttpDoor(Server(busy(), Destination("billing")), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        shop = page.locator("[data-destination=shop]")
        for text in ("running", "127.0.0.1:3306", "8.0.31", "connected", "2 reconnects", "mysql-bin.000003:9000"):
            expect(shop).to_contain_text(text)
        for text in ("900 / 500 / 400", "Client 1001", "mysql-bin.000003:1547", "run-4f1c", "left"):
            expect(shop).to_contain_text(text)
        expect(shop).to_contain_text(re.compile(r"Rollbacks\s*0\b"))
        assert float(shop.locator("progress").get_attribute("value") or 0) == pytest.approx(53.6, abs=0.1)
        expect(page.locator("[data-destination=billing]")).to_be_visible()


def test_the_start_and_what_it_lost(page: Page) -> None:
    """The page has the rule by which reading began, and a warning when rows were given up."""
    destination = busy()
    destination.binlog = ExpiryReport("mysql-bin.000001", 3600.0, {}, "may be purged in 1.0 h")
    chosen = EntryPosition("mysql-bin.000002", 157)
    destination.start = StartReport("the last position", "cursor mysql-bin.000002:157 of db:3306", chosen, 0.02)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.locator("[data-destination=shop]")).to_contain_text("Began at mysql-bin.000002:157: the last")
        expect(page.get_by_role("alert").filter(has_text="Binlog expiry")).to_contain_text("purged in 1.0 h")
        destination.start = replace(destination.start, lost="the journal mysql-bin.000001 was purged")
        page.goto(door.url)
        expect(page.get_by_role("alert").filter(has_text="Rows were lost")).to_contain_text("was purged")


def test_an_error_shows_with_its_remedy_and_without_a_reload(page: Page) -> None:
    """What happens after the page was opened appears and goes by itself."""
    destination = busy()
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)
        destination.state, destination.connected = "failed", False
        destination.error = ErrorReport(
            "PositionError",
            "the binlog <b>was</b> purged",
            "mysql-bin.000001:4",
            "Take a new snapshot.",
            since=1_700_000_000.0,
        )
        place = EntryPosition("mysql-bin.000003", 77)
        destination.stop_table(1001, StoppedTable(TABLE, "a column changed", "Rebuild it.", place))
        alert = page.get_by_role("alert").filter(has_text="PositionError")
        expect(alert).to_contain_text("the binlog <b>was</b> purged")
        expect(alert).to_contain_text("Remedy: Take a new snapshot.")
        expect(alert).to_contain_text("mysql-bin.000001:4")
        expect(page.get_by_text("not connected")).to_be_visible()
        expect(page.get_by_role("alert").filter(has_text="shop.orders stopped")).to_contain_text("Rebuild it.")
        destination.stop_table(1001, StoppedTable("shop.users", "2 rows fail", "Accept it.", place, kind="blocked"))
        expect(page.get_by_role("alert").filter(has_text="shop.users blocked")).to_contain_text("Remedy: Accept it.")
        destination.report_blocked(1001, [StoppedTable("shop.lines", "3 rows fail", "Accept them.", None)])
        expect(page.get_by_role("alert").filter(has_text="shop.lines blocked: 3")).to_contain_text("Accept them.")
        destination.report_blocked(1001, [])
        expect(page.get_by_role("alert").filter(has_text="shop.lines")).to_have_count(0)
        destination.error = None
        expect(alert).to_have_count(0)


def test_rows_that_wait_are_on_the_page(page: Page) -> None:
    """By table, those with the most rows first, with what to do about them."""
    destination = busy()
    destination.report_quarantined(1001, {TABLE: 2} | {f"shop.t{at}": 1200 for at in range(50)}, whole=True)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        shop = page.locator("[data-destination=shop]")
        expect(shop.get_by_role("row").filter(has_text="sluice requeue")).to_have_count(50)
        expect(shop).to_contain_text("And 1 more tables")
        destination.report_quarantined(1001, {TABLE: 2}, whole=True)
        row = shop.get_by_role("row").filter(has_text="sluice requeue")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("sluice drop shop shop.orders")
        destination.report_quarantined(1001, {}, whole=True)
        expect(row).to_have_count(0)


def test_the_page_says_that_the_service_went_away(page: Page) -> None:
    """The page does not show old figures as if they were new."""
    door = HttpDoor(Server(busy()), "127.0.0.1", free_port())
    with opened(door):
        page.goto(door.url)
    expect(page.locator("#away")).to_contain_text("does not answer")
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
    """The page asks for the token, and then refreshes by itself."""
    destination = busy()
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0, "s3cret")) as door:
        refused = browser.new_page()
        with pytest.raises(Error, match="ERR_INVALID_AUTH_CREDENTIALS"):
            refused.goto(door.url)
        context = browser.new_context(http_credentials={"username": "me", "password": "s3cret"})
        page = context.new_page()
        page.goto(door.url)
        destination.state = "starting"
        expect(page.locator(".state")).to_have_text("starting")
        context.close()
        refused.close()


def test_markup_in_a_name_stays_text(page: Page) -> None:
    """An owner that looks like markup is shown as text."""
    destination = Destination()
    destination.put(1)
    destination.claim(1001, 1, 0, "<script>alert(1)</script>", 60)
    with opened(HttpDoor(Server(destination), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
        policy = httpx.get(door.url).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_claims_lease_counts_down(page: Page) -> None:
    """The lease shown shrinks as time goes by."""
    with opened(HttpDoor(Server(busy()), "127.0.0.1", 0)) as door:
        page.goto(door.url)
        lease = page.locator("td").nth(2)
        expect(lease).not_to_have_text(lease.inner_text())
