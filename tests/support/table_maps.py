"""A table of every type, and the definitions in the TABLE_MAP events of a server."""

from __future__ import annotations

from cdc_core.binlog import table_map
from cdc_core.binlog.events import HEADER
from cdc_core.schema.table import TableSchema
from orchestration.stack.mysql.server import MySqlServer
from tests.support.binlog_files import capture

RICH = """
    CREATE TABLE {database}.rich (
      id BIGINT UNSIGNED NOT NULL, y YEAR, ti TINYINT UNSIGNED, s SMALLINT NOT NULL, m MEDIUMINT UNSIGNED,
      f FLOAT UNSIGNED,
      n DECIMAL(20,5) UNSIGNED, b1 BIT(1), b64 BIT(64), c CHAR(10), wide CHAR(100), v VARCHAR(20) CHARACTER SET latin1,
      a VARCHAR(300) CHARACTER SET ascii, bi BINARY(16), g GEOMETRY, t TINYTEXT, lb LONGBLOB, e ENUM('x','é','it''s'),
      e2 ENUM('q') CHARACTER SET latin1, se SET('ü','b') CHARACTER SET latin1, dt DATETIME(3), ts TIMESTAMP(6) NULL,
      tm TIME(2), da DATE, doubled INT AS (s * 2) VIRTUAL, PRIMARY KEY (s, id)
    ) CHARACTER SET utf8mb4"""


def definitions(server: MySqlServer, *statements: str) -> list[TableSchema]:
    """The TABLE_MAPs that these statements leave in the binlog."""
    block = capture(server, *statements)
    maps = block.index[block.index["type"] == 19]
    bodies = [block.data[row["offset"] + HEADER + 8 : row["offset"] + row["length"]].tobytes() for row in maps]
    return [table_map.parse(body, mariadb=server.version == "mariadb") for body in bodies]
