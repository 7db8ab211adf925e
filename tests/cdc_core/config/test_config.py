"""Canal's properties: the syntax of Java, references, defaults; errors name file, line, key and remedy."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from cdc_core.config import Report, destinations, load_instance, load_service
from cdc_core.config.canal_keys import is_unsupported
from cdc_core.config.models import INSTANCE_KEYS, SERVICE_KEYS
from cdc_core.config.properties import Properties, read_properties
from cdc_core.errors import ConfigError

STOCK_SERVICE = r"""
#################################################
######### 		common argument		#############
#################################################
# tcp bind ip
canal.ip =
# register ip to zookeeper
canal.register.ip =
canal.port = 11111
canal.metrics.pull.port = 11112
# canal instance user/passwd
# canal.user = canal
#canal.admin.manager = 127.0.0.1:8089
canal.admin.port = 11110
canal.admin.user = admin
canal.zkServers =
# flush data to zk
canal.zookeeper.flush.period = 1000
canal.withoutNetty = false
canal.serverMode = tcp
canal.file.data.dir = ${canal.conf.dir}
canal.file.flush.period = 1000
## memory store RingBuffer size, should be Math.pow(2,n)
canal.instance.memory.buffer.size = 16384
canal.instance.memory.buffer.memunit = 1024
canal.instance.memory.batch.mode = MEMSIZE
canal.instance.memory.rawEntry = true
canal.instance.detecting.enable = false
canal.instance.detecting.sql = select 1
canal.instance.transaction.size =  1024
canal.instance.network.soTimeout = 30
canal.instance.filter.query.dcl = false
canal.instance.parser.parallelBufferSize = 256
canal.instance.tsdb.enable = true
canal.instance.tsdb.dir = ${canal.file.data.dir:../conf}/${canal.instance.destination:}
canal.instance.tsdb.url = jdbc:h2:${canal.instance.tsdb.dir}/h2;CACHE_SIZE=1000;MODE=MYSQL;
canal.destinations = example
canal.conf.dir = ../conf
canal.auto.scan = true
canal.auto.scan.interval = 5
canal.instance.global.manager.address = ${canal.admin.manager}
canal.instance.global.spring.xml = classpath:spring/file-instance.xml
canal.aliyun.accessKey =
canal.mq.flatMessage = true
kafka.bootstrap.servers = 127.0.0.1:9092
rabbitmq.deliveryMode =
"""
STOCK_INSTANCE = r"""
## mysql serverId , v1.0.26+ will autoGen
# canal.instance.mysql.slaveId=0
canal.instance.gtidon=false
canal.instance.master.address=127.0.0.1:3306
canal.instance.master.journal.name=
canal.instance.master.position=
canal.instance.master.timestamp=
canal.instance.master.gtid=
canal.instance.rds.accesskey=
canal.instance.tsdb.enable=true
canal.instance.dbUsername=canal
canal.instance.dbPassword=canal
canal.instance.connectionCharset = UTF-8
canal.instance.enableDruid=false
canal.instance.filter.regex=.*\\..*
canal.instance.filter.black.regex=mysql\\.slave_.*
canal.mq.topic=example
canal.mq.partition=0
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A stock directory, as Canal ships it."""
    directory = tmp_path / "conf"
    (directory / "example").mkdir(parents=True)
    (directory / "spring").mkdir()
    (directory / "canal.properties").write_text(STOCK_SERVICE)
    (directory / "example" / "instance.properties").write_text(STOCK_INSTANCE)
    return directory


def instance_file(conf: Path, text: str, name: str = "example") -> Path:
    path = conf / name / "instance.properties"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_stock_directory_starts_as_it_is(conf: Path) -> None:
    """Every value is the default of Canal, and no key is unknown."""
    service, report = load_service(conf, {})
    instance, instance_report = load_instance(conf, "example", {})

    assert (report.unknown, instance_report.unknown) == ((), ())
    assert "canal.mq.flatMessage" in report.unsupported
    assert "canal.mq.topic" in instance_report.unsupported
    assert (service.host, service.http_port, service.flight_port) == ("127.0.0.1", 11112, 11113)
    assert (service.conf_dir, service.data_dir, service.zk_servers) == (conf, conf, "")
    assert destinations(service) == ["example"]
    assert (instance.host, instance.port, instance.user) == ("127.0.0.1", 3306, "canal")
    assert (instance.filter_regex, instance.filter_black_regex) == (r".*\..*", r"mysql\.slave_.*")
    assert (instance.capacity_bytes, instance.capacity_items) == (16384 * 1024, None)
    assert instance.journal_name == ""


def test_canal_properties_give_the_defaults_of_an_instance(conf: Path) -> None:
    """A key that instance.properties lacks comes from canal.properties."""
    with (conf / "canal.properties").open("a") as file:
        file.write("canal.instance.memory.batch.mode = itemsize\nsluice.heartbeat.seconds = 2.5\n")
    instance_file(conf, "canal.instance.memory.buffer.size = 32\n")

    instance, _ = load_instance(conf, "example", {})

    assert (instance.capacity_items, instance.heartbeat_seconds) == (32, 2.5)


def test_javas_syntax(tmp_path: Path) -> None:
    """Separators, comments, continued lines, escapes; a later line wins over an earlier one."""
    path = tmp_path / "a.properties"
    path.write_text(
        "# no\n! no\n  a = 1 \nb:2\nc 3\nd\ne=x\\\n   y\\\\\nf\\ g=\\u00e4\\t.\\.\nh=\\\n# not a comment\na=4\ni= \n"
    )

    found = read_properties(path)

    assert {key: p.value for key, p in found.items()} == {
        "a": "4", "b": "2", "c": "3", "d": "", "e": "xy\\", "f g": "ä\t..", "h": "# not a comment", "i": "",
    }  # fmt: skip
    assert (found["f g"].line, found["a"].line) == (9, 12)


def test_references_are_followed(tmp_path: Path) -> None:
    """Own keys come before the environment, and the environment before the default. Circles and unresolved references
    are errors when read."""
    path = tmp_path / "a.properties"
    path.write_text("a=${b}/${C}/${d:5}\nb=1\nloop=${loop2}\nloop2=${loop}\nnone=${NONE}\n")
    found = Properties(read_properties(path), {"b": "no", "C": "2"})

    assert found.get("a") == "1/2/5"
    with pytest.raises(ConfigError, match="refers to itself"):
        found.get("loop")
    with pytest.raises(ConfigError, match="NONE") as refused:
        found.get("none")
    assert refused.value.place == f"{path}:5: none"
    assert "Set NONE" in refused.value.hint


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("canal.instance.master.address=db:port", "canal.instance.master.address"),
        ("canal.instance.memory.buffer.size=many", "canal.instance.memory.buffer.size"),
        ("canal.instance.memory.batch.mode=ROWS", "canal.instance.memory.batch.mode"),
        ("canal.instance.master.journal.name=mysql-bin", "canal.instance.master.journal.name"),
        ("canal.instance.master.timestamp=yesterday", "canal.instance.master.timestamp"),
        ("canal.instance.master.gtid=3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "canal.instance.master.gtid"),
        ("canal.instance.standby.address=db:port", "canal.instance.standby.address"),
        ("canal.instance.standby.address=127.0.0.1:3306", "canal.instance.standby.address"),
        ("canal.instance.detecting.interval.time=0", "canal.instance.detecting.interval.time"),
        ("canal.instance.detecting.enable=perhaps", "canal.instance.detecting.enable"),
        ("canal.instance.master.sslMode=MAYBE", "canal.instance.master.sslMode"),
        ("canal.instance.enableDruid=true", "canal.instance.enableDruid"),
        ("sluice.zero.dates=zero", "sluice.zero.dates"),
        ("sluice.ssl.cert=/a.pem", "sluice.ssl.cert"),
        ("canal.instance.dbPassword=${NO_SUCH}", "canal.instance.dbPassword"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(conf: Path, line: str, key: str) -> None:
    """The error has file, line, key and remedy."""
    path = instance_file(conf, f"# one\n{line}\n")

    with pytest.raises(ConfigError) as refused:
        load_instance(conf, "example", {})

    assert refused.value.place == f"{path}:2: {key}"
    assert refused.value.hint


def test_every_start_of_canal_is_read(conf: Path) -> None:
    """By GTID in GTID mode, by time, and for the standby."""
    instance_file(
        conf,
        "canal.instance.gtidon=true\ncanal.instance.master.gtid=0-1-7\ncanal.instance.master.timestamp=5\n"
        "canal.instance.standby.address=db2:3307\ncanal.instance.standby.position=9\n"
        "canal.instance.fallbackIntervalInSeconds=7\n"
        "canal.instance.detecting.enable=true\ncanal.instance.detecting.sql=update beat set at = now()\n"
        "canal.instance.detecting.interval.time=6\ncanal.instance.detecting.retry.threshold=5\n"
        "canal.instance.detecting.heartbeatHaEnable=true\n",
    )
    instance, report = load_instance(conf, "example", {})

    assert (instance.gtid_mode, instance.gtid, instance.timestamp) == (True, "0-1-7", 5)
    assert (instance.standby_address, instance.standby_position) == ("db2:3307", 9)
    assert (instance.fallback_seconds, instance.reset_to_end) == (7, False)
    assert (instance.detecting, instance.detecting_sql) == (True, "update beat set at = now()")
    assert (instance.detecting_seconds, instance.detecting_threshold, instance.heartbeat_ha) == (6, 5, True)
    assert report.unsupported == report.unknown == ()


def test_files_that_cannot_be_read_are_named(conf: Path) -> None:
    """A missing file, one that is not UTF-8, and a broken escape."""
    with pytest.raises(ConfigError, match="cannot read") as refused:
        load_instance(conf, "nothing", {})
    assert "nothing/instance.properties" in refused.value.place

    path = instance_file(conf, "a=\\uXYZ\n")
    with pytest.raises(ConfigError, match="hexadecimal") as refused:
        load_instance(conf, "example", {})
    assert refused.value.place == f"{path}:1"

    path.write_bytes(b"a=\xff\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_instance(conf, "example", {})


def test_unknown_keys_are_reported_by_name(conf: Path) -> None:
    """Ours and Canal's alike; Canal's keys without effect are another list."""
    instance_file(conf, "canal.instance.no=a\nsluice.no=1\ncanal.instance.filter.druid.ddl=true\n")

    _, report = load_instance(conf, "example", {})

    assert report.unknown == ("canal.instance.no", "sluice.no")
    assert report.unsupported == ("canal.instance.filter.druid.ddl",)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("canal.instance.filtr.regex", "canal.instance.filter.regex"),
        ("canal.instance.master.adress", "canal.instance.master.address"),
        ("canal.instance.mysql.slaveid", "canal.instance.mysql.slaveId"),
        ("sluice.store.byte", "sluice.store.bytes"),
        ("canal.instance.filter.black.regexp", "canal.instance.filter.black.regex"),
    ],
)
def test_a_misspelt_key_is_an_error_while_the_one_it_looks_like_is_not_set(conf: Path, key: str, meant: str) -> None:
    """The error names both, with file and line; where both are set it is an unknown key as others are."""
    path = instance_file(conf, f"{key}=1\n")
    with pytest.raises(ConfigError, match=f"{re.escape(key)} is an unknown key; {re.escape(meant)} is not set") as no:
        load_instance(conf, "example", {})
    assert no.value.place == f"{path}:1: {key}"
    assert meant in no.value.hint

    instance_file(conf, f"{key}=1\n{meant}={'1234' if 'regex' not in meant else '.*'}\n")
    assert load_instance(conf, "example", {})[1].unknown == (key,)


@pytest.mark.parametrize("file", ["canal.properties", "example/instance.properties"])
def test_a_server_with_a_number_is_an_error(conf: Path, file: str) -> None:
    """Canal's group instance: the address would be the default one."""
    (conf / "example").mkdir(exist_ok=True)
    (conf / file).write_text("canal.instance.master.address=db1:3306\ncanal.instance.master2.address=db2:3306\n")
    load = load_service if file == "canal.properties" else partial(load_instance, destination="example")
    with pytest.raises(ConfigError, match=r"^canal\.instance\.master2\.address: .* one server") as no:
        load(conf, environment={})
    assert no.value.place == f"{conf / file}:2: canal.instance.master2.address"
    assert "canal.instance.master.address" in no.value.hint


def test_a_key_is_supported_unsupported_or_unknown(conf: Path) -> None:
    """No key is both supported and reported; a key that Canal's families do not have is unknown."""
    supported = SERVICE_KEYS | INSTANCE_KEYS
    assert [key for key in supported if is_unsupported(key)] == []
    instance_file(
        conf,
        "canal.instance.filter.nothing=true\ncanal.instance.master.tlsVersions=TLSv1.2\ncanal.instance.standby.sslMode=\n"
        "canal.instance.shop.spring.xml=a.xml\nrocketmq.namesrv.addr=127.0.0.1:9876\n",
    )

    _, report = load_instance(conf, "example", {})

    assert report.unknown == ("canal.instance.filter.nothing",)
    assert len(report.unsupported) == 4


def test_destinations_come_from_the_key_and_from_directories(conf: Path) -> None:
    """With auto scan every directory with an instance.properties is a destination."""
    instance_file(conf, "", name="shop")
    service, _ = load_service(conf, {})
    fixed = service.model_copy(update={"auto_scan": False})

    assert destinations(service) == ["example", "shop"]
    assert destinations(fixed) == ["example"]


def test_secrets_are_not_shown(conf: Path) -> None:
    """Neither in a repr nor in an error. They may come from the environment."""
    with (conf / "canal.properties").open("a") as file:
        file.write("sluice.token = t0ken\nsluice.zk.auth = me:hidden\n")
    instance_file(conf, "canal.instance.dbPassword=${DB_PASSWORD}\n")

    service, _ = load_service(conf, {})
    instance, _ = load_instance(conf, "example", {"DB_PASSWORD": "s3cret"})

    assert instance.password.get_secret_value() == "s3cret"
    assert not any(secret in repr(service) + repr(instance) for secret in ("t0ken", "hidden", "s3cret"))


def test_a_destinations_own_lazy_key_is_over_that_of_all(tmp_path: Path) -> None:
    """The key may stand in either file; an error names the file where it stands."""
    (tmp_path / "canal.properties").write_text("canal.instance.global.lazy=true\ncanal.instance.shop.lazy=false\n")
    for name in ("shop", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "instance.properties").write_text("")
    assert load_instance(tmp_path, "shop", {})[0].lazy is False
    assert load_instance(tmp_path, "other", {})[0].lazy is True
    assert load_service(tmp_path, {})[1] == Report((), ())

    (tmp_path / "shop" / "instance.properties").write_text("canal.instance.shop.lazy=maybe\n")
    with pytest.raises(ConfigError) as refused:
        load_instance(tmp_path, "shop", {})
    assert refused.value.place.endswith("instance.properties:1: canal.instance.shop.lazy")
