"""The distribution that these packages are installed as, and its extras.

`EXTRAS` names the extra that brings a package which the capture service does without: what needs one imports it late,
and `missing` says how to install it.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

from cdc_core.errors import ConfigError

DISTRIBUTION = "sluice-cdc"
_EARLIER = "sluice"  # the distribution's name before it was published

EXTRAS = {
    "apprise": "alerts",
    "confluent_kafka": "kafka",
    "dagster": "dagster",
    "deltalake": "spark",
    "grpc": "spark",
    "pandas": "spark",
    "psutil": "dagster",
    "psycopg": "postgresql",
    "pyspark": "spark",
    "rocketmq": "rocketmq",
}


def version() -> str:
    """Returns the installed version, or "unknown" where the packages are used without having been installed."""
    for name in (DISTRIBUTION, _EARLIER):
        with suppress(PackageNotFoundError):
            return installed(name)
    return "unknown"


def required(module: str, place: str) -> Any:
    """Imports a module of an extra. Raises ConfigError, which says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error, module, place) from None


OF_DAGSTER = frozenset(f"sluice {name}" for name in ("alert", "demo", "drain", "up"))
"""Commands that need all of the extra `dagster`, whichever package is absent first."""


def missing(error: ImportError, module: str, place: str = "") -> ConfigError:
    """Returns the error of a module that cannot be imported, with the command that installs its extra. `place`: the
    command that needs it."""
    package = module.partition(".")[0]
    extra = "dagster" if place in OF_DAGSTER else EXTRAS.get(package)
    install = f"{DISTRIBUTION}[{extra}]" if extra else package
    wrong = "is not installed" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded: {error}"
    return ConfigError(f"the package {package} {wrong}", place=place, hint=f"Install it: pip install '{install}'.")
