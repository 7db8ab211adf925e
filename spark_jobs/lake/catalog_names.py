"""The names that the lake's tables have in a catalog of Spark's session: plain values of the configuration."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from string import Formatter

from spark_jobs.lake.sql import quote

SPARK_CATALOG = "spark_catalog"  # the one that each session has
METASTORE = "_sluice/_sluice_metastore"  # below the root of a lake: no destination has a folder of that name
_FIELDS = ("database", "table", "destination")
_CATALOG = re.compile(r"[^\s.`\x00-\x1f\x7f]+")
_ODD = re.compile(r"[^A-Za-z0-9_]")  # what a Hive metastore, and Spark for it, allows in no name


@dataclass(frozen=True, slots=True)
class CatalogName:
    """The name of a table or view in a catalog; in the session's current one if `catalog` is empty."""

    catalog: str
    database: str
    table: str

    def __str__(self) -> str:
        return ".".join(filter(None, (self.catalog, self.database, self.table)))

    @property
    def sql(self) -> str:
        """Returns the name for a statement."""
        return f"{self.namespace}.{quote(self.table)}"

    @property
    def namespace(self) -> str:
        """Returns its database for a statement."""
        return ".".join(map(quote, filter(None, (self.catalog, self.database))))

    @property
    def key(self) -> tuple[str, str]:
        """Returns what two names of a catalog that lowers case have in common."""
        return self.database.lower(), self.table.lower()


@dataclass(frozen=True, slots=True)
class CatalogRules:
    """`catalog`: a catalog that Spark's session knows. `database` and `table`: the templates of the names in it, with
    the fields `{database}`, `{table}` and `{destination}`. Change logs, histories and views are tables of their own
    there: `orders__log`."""

    catalog: str = SPARK_CATALOG
    database: str = "{database}"
    table: str = "{table}"

    def name(self, destination: str, database: str, table: str) -> CatalogName:
        """Returns the name of a table. A character that is no ASCII letter, digit or underscore becomes `_`."""
        values = {"database": database, "table": table, "destination": destination}
        named = (_ODD.sub("_", template.format(**values)) for template in (self.database, self.table))
        return CatalogName(self.catalog, *named)


def check_catalog(name: str) -> None:
    """Raises ValueError for what names no catalog of a session: a dot would separate it from something in it."""
    if not _CATALOG.fullmatch(name):
        raise ValueError(
            f"{name!r} names no catalog of Spark's session: it is spark_catalog, or NAME of spark.sql.catalog.NAME, "
            "without dots and blanks; databases and tables are named by templates"
        )


def check_template(template: str, *, needs: str = "") -> None:
    """Raises ValueError for a text that is not a template of names, or that lacks the field `needs`."""
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise ValueError(f"{template!r} is not a template: {error}") from error
    if not template or any(form or how or field not in _FIELDS for _, field, form, how in parts):
        fields = "{database}, {table} and {destination}"
        raise ValueError(f"{template!r} is not a template of names; its fields are {fields}")
    if needs and needs not in [field for _, field, _, _ in parts]:
        raise ValueError(f"{template!r} gives all tables one name; it needs {{{needs}}}")


def catalog_json(rules: CatalogRules | None) -> str:
    """Returns the rules as text, for a configuration; an empty object for None."""
    return json.dumps(asdict(rules)) if rules else "{}"


def catalog_from(text: str) -> CatalogRules | None:
    """Returns the rules that `catalog_json` wrote."""
    node = json.loads(text)
    return CatalogRules(**node) if node else None
