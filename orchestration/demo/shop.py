"""The demo's source: eight related tables of many column types, and their first rows. Statements only, no state."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

DATABASE = "shop"
TABLES = (
    "customers",
    "addresses",
    "products",
    "inventory",
    "orders",
    "order_items",
    "payments",
    "page_views",
)
WAREHOUSES = ("BER", "OSL", "TYO")
PRODUCTS = 200
CUSTOMERS = 400

SCHEMA = (
    f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4",
    f"USE {DATABASE}",
    """CREATE TABLE customers (
         id BIGINT UNSIGNED NOT NULL PRIMARY KEY COMMENT 'given by the shop, never reused',
         email VARCHAR(190) NOT NULL,
         name VARCHAR(120) NOT NULL COMMENT 'as the customer writes it',
         nickname VARCHAR(60) CHARACTER SET latin1,
         tier ENUM('basic', 'silver', 'gold') NOT NULL DEFAULT 'basic',
         interests SET('books', 'music', 'garden', 'sport') NOT NULL DEFAULT '',
         preferences JSON,
         born DATE,
         member_since YEAR NOT NULL,
         vip BIT(1) NOT NULL DEFAULT b'0',
         created_at TIMESTAMP(6) NOT NULL,
         UNIQUE KEY (email)
       ) COMMENT 'people who have an account'""",
    """CREATE TABLE addresses (
         customer_id BIGINT UNSIGNED NOT NULL,
         slot SMALLINT UNSIGNED NOT NULL COMMENT 'changes when addresses are put in another order',
         street VARCHAR(200) NOT NULL,
         city VARCHAR(100) NOT NULL,
         country CHAR(2) CHARACTER SET ascii NOT NULL,
         latitude DECIMAL(9, 6),
         remark TEXT CHARACTER SET utf8mb3,
         PRIMARY KEY (customer_id, slot),
         FOREIGN KEY (customer_id) REFERENCES customers (id)
       )""",
    """CREATE TABLE products (
         id INT UNSIGNED NOT NULL PRIMARY KEY,
         sku VARCHAR(32) CHARACTER SET ascii NOT NULL,
         title VARCHAR(200) NOT NULL,
         price DECIMAL(10, 2) NOT NULL,
         weight FLOAT,
         rating DOUBLE,
         shelf TINYINT,
         pieces MEDIUMINT UNSIGNED,
         launched YEAR,
         flags BIT(12) NOT NULL,
         attributes JSON,
         picture BLOB
       ) COMMENT 'what is sold'""",
    """CREATE TABLE inventory (
         warehouse CHAR(3) NOT NULL,
         product_id INT UNSIGNED NOT NULL,
         quantity INT NOT NULL,
         counted_at DATETIME(6) NOT NULL,
         opens TIME(3),
         PRIMARY KEY (warehouse, product_id),
         FOREIGN KEY (product_id) REFERENCES products (id)
       )""",
    """CREATE TABLE orders (
         id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
         customer_id BIGINT UNSIGNED NOT NULL,
         status ENUM('open', 'paid', 'sent', 'returned') NOT NULL,
         channel SET('web', 'app', 'shop') NOT NULL,
         total DECIMAL(12, 2) NOT NULL,
         placed_at DATETIME(3) NOT NULL,
         note VARCHAR(300),
         KEY (customer_id),
         FOREIGN KEY (customer_id) REFERENCES customers (id)
       )""",
    """CREATE TABLE order_items (
         order_id BIGINT UNSIGNED NOT NULL,
         line TINYINT UNSIGNED NOT NULL,
         product_id INT UNSIGNED NOT NULL,
         quantity SMALLINT UNSIGNED NOT NULL,
         price DECIMAL(10, 2) NOT NULL,
         PRIMARY KEY (order_id, line),
         FOREIGN KEY (order_id) REFERENCES orders (id),
         FOREIGN KEY (product_id) REFERENCES products (id)
       )""",
    """CREATE TABLE payments (
         id BINARY(16) NOT NULL PRIMARY KEY,
         order_id BIGINT UNSIGNED NOT NULL,
         method ENUM('card', 'bill', 'voucher') NOT NULL,
         amount DECIMAL(12, 2) NOT NULL,
         paid_at TIMESTAMP(3) NOT NULL,
         receipt VARBINARY(64),
         KEY (order_id),
         FOREIGN KEY (order_id) REFERENCES orders (id)
       )""",
    """CREATE TABLE page_views (
         seen_at TIMESTAMP(3) NOT NULL,
         customer_id BIGINT UNSIGNED,
         path VARCHAR(200) NOT NULL,
         seconds TIME(6)
       ) COMMENT 'a log: no primary key, equal rows happen'""",
)

_CITIES = ("Ålesund", "Köln", "東京", "São Paulo", "Łódź", "Paris")
_WORDS = ("quiet", "bright", "tall", "paper", "river", "copper", "cedar", "winter", "amber", "stone")

ORDERS = CUSTOMERS * 100  # of before the capture; with their items and payments 200,000 rows
HISTORY = (
    """INSERT INTO orders SELECT (c.id - 1) * 100 + p.id, c.id, 'sent', 'web', p.price, NOW(3), NULL
       FROM customers c JOIN products p ON p.id <= 100""",
    """INSERT INTO order_items SELECT o.id, l.line, 1 + (o.id * 7 + l.line) % 200, 1 + l.line, 9.95
       FROM orders o JOIN (SELECT 0 AS line UNION ALL SELECT 1 UNION ALL SELECT 2) l""",
    "INSERT INTO payments SELECT UNHEX(MD5(id)), id, 'card', total, placed_at, 'ok' FROM orders",
    "INSERT INTO page_views SELECT NOW(3), id, '/', '00:00:02.5' FROM customers",
)

Rows = tuple[str, Sequence[tuple[object, ...]]]
"""An INSERT for `executemany` and its rows."""


def first_rows(rng: random.Random) -> Iterator[Rows]:
    """The rows with which the shop opens."""
    yield INSERT_PRODUCT, [product(rng, number) for number in range(1, PRODUCTS + 1)]
    stock = [(house, number, rng.randint(50, 500)) for house in WAREHOUSES for number in range(1, PRODUCTS + 1)]
    yield INSERT_STOCK, stock
    yield INSERT_CUSTOMER, [customer(rng, number) for number in range(1, CUSTOMERS + 1)]
    yield INSERT_ADDRESS, [address(rng, number, 1) for number in range(1, CUSTOMERS + 1)]


INSERT_PRODUCT = "INSERT INTO products VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
INSERT_STOCK = "INSERT INTO inventory VALUES (%s, %s, %s, NOW(6), '08:30:00.250')"
INSERT_CUSTOMER = "INSERT INTO customers VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, NOW(6))"
INSERT_ADDRESS = "INSERT INTO addresses VALUES (%s, %s, %s, %s, %s, %s, %s)"
INSERT_ORDER = "INSERT INTO orders VALUES (%s, %s, %s, %s, %s, NOW(3), %s)"
INSERT_ITEM = "INSERT INTO order_items VALUES (%s, %s, %s, %s, %s)"
INSERT_PAYMENT = "INSERT INTO payments VALUES (%s, %s, %s, %s, NOW(3), %s)"
INSERT_VIEW = "INSERT INTO page_views VALUES (NOW(3), %s, %s, %s)"


def product(rng: random.Random, number: int) -> tuple[object, ...]:
    attributes = f'{{"colour": "{rng.choice(_WORDS)}", "size": [{rng.randint(1, 90)}, {rng.randint(1, 90)}]}}'
    return (
        number,
        f"SKU-{number:05d}",
        words(rng, 3),
        f"{rng.randint(100, 99999) / 100:.2f}",
        rng.choice((None, 0.25, 1.5, 12.75)),
        rng.random() * 5,
        rng.randint(-5, 100),
        rng.randint(0, 100_000),
        rng.randint(1990, 2026),
        rng.getrandbits(12),
        attributes,
        rng.randbytes(rng.randint(0, 120)),
    )


def customer(rng: random.Random, number: int) -> tuple[object, ...]:
    return (
        number,
        f"c{number}@example.com",
        words(rng, 2).title(),
        rng.choice((None, "José", "Zoë", "Fran\u00e7ois")),
        rng.choice(("basic", "silver", "gold")),
        ",".join(rng.sample(("books", "music", "garden", "sport"), rng.randint(0, 3))),
        f'{{"news": {rng.choice(("true", "false"))}, "visits": {rng.randint(0, 9)}}}',
        rng.choice((None, f"{rng.randint(1940, 2005)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}")),
        rng.randint(2001, 2026),
        rng.getrandbits(1),
    )


def address(rng: random.Random, customer_id: int, slot: int) -> tuple[object, ...]:
    street = f"{words(rng, 1).title()} street {rng.randint(1, 200)}"
    latitude = f"{rng.uniform(-80, 80):.6f}"
    country = rng.choice(("NO", "DE", "JP", "BR"))
    return customer_id, slot, street, rng.choice(_CITIES), country, latitude, rng.choice((None, words(rng, 6)))


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(count))
