"""The words of messages."""

from __future__ import annotations

import pytest

from orchestration.alerts.incidents import Condition, Heard, Incident, Look, News, follow, news
from orchestration.alerts.kinds import Kind
from orchestration.alerts.messages import Message, length, written

ALL = frozenset(Kind)
AT = 1_764_194_400.0  # 2025-11-26 22:00:00 UTC


def of(*conditions: Condition, page: str = "") -> Message:
    """The message about these, which are new."""
    look = Look(conditions)
    incidents = follow(follow({}, look, AT), look, AT + 60)
    (one,) = news(incidents, look, Heard(), ALL, AT + 60)
    return written("shop", one, {one.key: one for one in conditions}, incidents, Heard(), AT + 60, page)


def test_a_message_says_what_where_since_when_and_what_to_do() -> None:
    """In plain English, with the table's page."""
    stop = Condition(
        Kind.STOPPED,
        "shop.orders",
        "total does not\nfit DECIMAL",
        "Run `sluice copy shop shop.orders`.",
        page="assets/x",
    )

    assert of(stop, page="https://dagster") == Message(
        "Sluice shop: a table is stopped",
        "shop.orders, since 2025-11-26 22:00 UTC: total does not fit DECIMAL\n\n"
        "What to do: Run `sluice copy shop shop.orders`.\n\n"
        "https://dagster/assets/x",
        "failure",
    )


def test_of_many_the_first_ten_are_named() -> None:
    """Equal remedies are there once, three different ones at most; a long text is cut."""
    stops = [Condition(Kind.STOPPED, f"shop.t{n:02}", "x" * 5_000, f"Do {n % 5}.") for n in range(25)]
    message = of(*stops)

    assert message.title == "Sluice shop: 25 tables are stopped"
    lines, remedies = message.body.split("\n\n")
    assert [line[:8] for line in lines.splitlines()] == [f"shop.t{n:02}" for n in range(10)] + ["and 15 m"]
    assert remedies.splitlines() == [
        "What to do: Do 0.",
        "What to do: Do 1.",
        "What to do: Do 2.",
        "The others differ: see the page.",
    ]
    assert len(message.body) < 6_000


def test_the_end_has_how_long_it_lasted() -> None:
    """Until it was gone, not until that was sure."""
    incidents = {"stopped:shop.orders": Incident(AT, AT, gone=AT + 7_500)}
    heard = Heard({"stopped:shop.orders": AT, "stopped:shop.users": AT})
    ended = News(Kind.STOPPED, True, ("stopped:shop.orders", "stopped:shop.users"), 2)

    message = written("shop", ended, {}, incidents, heard, AT + 90_000, "https://dagster")

    assert message.title == "Sluice shop: 2 tables go on"
    assert message.level == "success"
    assert message.body.splitlines() == [
        "shop.orders: it lasted 2 h, from 2025-11-26 22:00 UTC",
        "shop.users: it lasted 25 h, from 2025-11-26 22:00 UTC",
        "",
        "https://dagster",
    ]


def test_the_trouble_of_a_service_is_that_of_all_its_destinations() -> None:
    """So its message names none of them, and is the same for all."""
    message = of(Condition(Kind.SERVICE, "http://s:11112", "it does not answer", "Start it."))

    assert message.title == "Sluice: the service is not available"
    assert message.shared == "service+ service:http://s:11112"
    assert of(Condition(Kind.LAG, "shop", "late")).shared == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h"), (200_000, "2 d")],
)
def test_lengths_are_read_at_a_glance(seconds: float, text: str) -> None:
    """In the largest unit of which there are two."""
    assert length(seconds) == text
