"""What of a statement's text may be shown."""

from __future__ import annotations

import pytest

from cdc_core.schema.sql_text import shown


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE f (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:geheim@h/d/t'",
        "CREATE TABLE f (id INT) ENGINE=FEDERATED CONNECTION='mysql://u:it''s \\' geheim@h/d/t' COMMENT 'x'",
        'ALTER TABLE f CONNECTION = "mysql://u:geheim@h/d/t"',
        "CREATE USER u IDENTIFIED BY 'geheim'",
        "GRANT ALL ON *.* TO u identified /* how */ by\n'geheim'",
        "ALTER USER u IDENTIFIED WITH x AS 0x67656865696d",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'geheim')",
        "CREATE TABLE c (id INT) ENGINE=CONNECT OPTION_LIST='User=u,Password=geheim'",
        "SET PASSWORD FOR u = 'geheim, and its end is cut",
    ],
)
def test_secrets_are_left_out(text: str) -> None:
    """Whatever the quotes, also of a text that is cut inside of them."""
    for most in range(len(text) + 1):
        assert "gehei" not in shown(text, most)
        assert "67656865" not in shown(text, most)
    assert shown(text, 1000).startswith(text[:6])


def test_other_statements_are_shown_as_they_are() -> None:
    """Up to the limit."""
    text = "ALTER TABLE t ADD c VARCHAR(9) DEFAULT 'x' COMMENT \"it's\""
    assert (shown(text, 1000), shown(text, 5)) == (text, "ALTER")
