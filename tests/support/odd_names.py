"""Names that MySQL allows for tables, and that something on the way to the lake could stumble over."""

from __future__ import annotations

ODD_NAMES = (
    "größe", "заказы", "注文" * 32, "a/b", "a/../b", "..", ".", ".hidden", "a.b", "a|b", "a#b", "a\\b", 'a"b', "a'b",
    "a`b", "`", "a%2Fb", "100%", "a?b=c&d", "a:b", "*", "[1]", "{x}", "${env:HOME}", "a@0040b", "a b", "a-b", "a_b",
    "Orders", "orders", "_delta_log", "_sluice", "_sluice_net", "CON", "select", "tab\tnew\nline", "a+b", "~", "-rf",
    "é", "e\u0301",
)  # fmt: skip
