"""Fixtures: real servers, started when the first test asks for them and ended with the session."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from cdc_core.errors import ConfigError
from orchestration.stack.mysql.server import MySqlServer, Option
from orchestration.stack.zookeeper import ZooKeeper
from tests.support.marks import has_turn
from tests.support.servers import MySqlFactory, discard, free_port

SPARK = pytest.StashKey[Any]()
LONG = ("faults", "chaos", "live", "commands", "bad_input", "maintain", "following", "apply", "load", "verify")
LONG += ("snapshot", "stack", "orchestration", "stateful")
# Java's second compiler takes half of the time of a Spark that lives for minutes, and code runs too seldom to repay it.
# The first one alone gets 48 MB for its code, which Spark fills: it would be swept, and compiled again.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts programs so in the background
    # Dagster handles SIGTERM as SIGINT. Children that ignore it were waited for, 20 seconds each.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"turn: SLUICE_TEST_TURN={os.environ['SLUICE_TEST_TURN']}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="also the tests marked `full`")
    parser.addoption(
        "--in-turn", action="store_true", help="each test marked `in_turn` one day of seven, or as it says"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked `full`, unless `--all` asks for it, and with `--in-turn` what has no turn today.
    Folders of long tests come first."""
    tiered, in_turn = not config.getoption("--all"), config.getoption("--in-turn")

    def waits(item: pytest.Item) -> bool:
        if tiered and item.get_closest_marker("full"):
            return True
        mark = item.get_closest_marker("in_turn") if in_turn else None
        return mark is not None and not has_turn(item.nodeid, *mark.args)

    if left_out := [item for item in items if waits(item)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not waits(item)]
    items.sort(key=lambda item: rank_of(item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives each group as a whole to one of several processes. The first one takes what needs Spark as long as there is
    any, and the others what does not: Spark computes while servers are waited for."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

        def _assign_work_unit(self, node: Any) -> None:
            first = node is self.nodes[0]
            mine = (scope for scope in self.workqueue if needs_spark(Path(scope)) == first)
            if scope := next(mine, None):
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return ByGroup(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Gives a process the address of the Spark of all processes, which starts before the first of them."""
    from tests.support.shared_spark import SharedSpark

    config = node.config
    if SPARK not in config.stash:
        interpreted = config.getoption("--in-turn") and not has_turn("compiled statements")
        config.stash[SPARK] = spark = SharedSpark(interpreted=interpreted)
        config.add_cleanup(spark.stop)
    node.workerinput["spark_remote"] = config.stash[SPARK].remote
    node.workerinput["read"] = str(config.stash[SPARK].directory / "read")


gc.disable()  # the tests are read without it, a third sooner


def pytest_collection_finish(session: pytest.Session) -> None:
    """The 700,000 objects of the tests that were read are no garbage: to look at them took 1.4 seconds each time, and
    every thread waits meanwhile."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Freezes what a finished module leaves, mostly imports. Each service that ends collects the garbage of its
    process. To look at all of that each time took two thirds of the time of the process that has Spark."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """One process reads the tests before the others do, while Spark starts: in a new checkout each would compile all
    of them."""
    given: dict[str, Any] = getattr(session.config, "workerinput", {})
    if not (name := given.get("read")):
        return (yield)
    first, read = given["workerid"] == "gw0", Path(name)
    deadline = time.monotonic() + 300
    while not first and not read.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    try:
        return (yield)
    finally:
        if first:
            read.touch()


def group_of(path: Path) -> str:
    """The group of a test module: those on the stack of faults, or itself."""
    return str(path.parent if path.parent.name == "faults" else path)


def rank_of(path: Path) -> int:
    """Where a module stands in the order: the lower, the earlier."""
    return min((rank for rank, name in enumerate(LONG) if name in path.parts), default=len(LONG))


@cache
def needs_spark(path: Path) -> bool:
    """Whether a module's tests ask for the Spark server of all."""
    return path.is_file() and any(word in path.read_text() for word in ("spark_remote", "sessions: Sessions"))


@contextmanager
def mysql_factory(folders: pytest.TempPathFactory) -> Iterator[MySqlFactory]:
    """All its servers are killed at the end: nobody needs what a clean shutdown would write."""
    servers: list[MySqlServer] = []

    def make(version: str = "8.0.31", **options: Option) -> MySqlServer:
        server = MySqlServer(version, folders.mktemp(f"mysql-{version}"), **options)
        servers.append(server)
        return server.start()

    try:
        yield make
    finally:
        for server in servers:
            discard(server)


@pytest.fixture(scope="module")
def new_mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlFactory]:
    """A factory of servers: `new_mysql("8.0.31", gtid_mode="OFF")`. An option of None leaves out a default.

    They end with the module: ten that nobody asks take two gigabytes and a thirtieth of a processor.
    """
    with mysql_factory(tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="session")
def lasting_mysql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlFactory]:
    """A factory of servers that all modules share."""
    with mysql_factory(tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="session")
def mysql8(lasting_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 8.0.31."""
    return lasting_mysql("8.0.31")


@pytest.fixture(scope="session")
def mysql57(lasting_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 5.7.22."""
    return lasting_mysql("5.7.22")


@pytest.fixture(scope="session")
def mysql9(lasting_mysql: MySqlFactory) -> MySqlServer:
    """MySQL 9 as Debian's unstable suite has it today; skips where it cannot be had."""
    try:
        return lasting_mysql("9")
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def mariadb(lasting_mysql: MySqlFactory) -> MySqlServer:
    """MariaDB as the system packages it."""
    return lasting_mysql("mariadb")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A ZooKeeper for all tests: keep apart by a chroot of your own (`zk_root`)."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"), free_port()).start()
    yield server
    server.kill()


@pytest.fixture
def zk_root() -> str:
    """A chroot that no other test uses: append it to `zookeeper.hosts`."""
    return f"/t-{secrets.token_hex(4)}"


@pytest.fixture
def zk(zookeeper: ZooKeeper, zk_root: str) -> Iterator[KazooClient]:
    """A client of ZooKeeper that is nobody's part, in the test's own chroot."""
    client = KazooClient(zookeeper.hosts)
    client.start()
    client.ensure_path(zk_root)
    client.chroot = zk_root
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="session")
def spark_remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server with Delta. Tests of another process may use it at the same time."""
    from orchestration.stack.spark import SparkConnect
    from tests.support.shared_spark import wait_for

    if shared := getattr(request.config, "workerinput", {}).get("spark_remote"):
        wait_for(shared)
        yield shared
        return
    server = SparkConnect(tmp_path_factory.mktemp("spark"), free_port()).start()
    yield server.remote
    server.kill()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a bucket that delta-rs finds by the environment."""
    from tests.support.object_store import BUCKET, ObjectStore, environment

    server = ObjectStore(tmp_path_factory.mktemp("s3")).start()
    with environment(server.environment):
        yield f"s3a://{BUCKET}"
    server.kill()


@pytest.fixture(scope="session")
def full(request: pytest.FixtureRequest) -> bool:
    """Whether everything runs; tests that draw at random then draw more."""
    return bool(request.config.getoption("--all"))


@pytest.fixture(scope="session")
def lake_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for lakes."""
    return tmp_path_factory.mktemp("lake")
