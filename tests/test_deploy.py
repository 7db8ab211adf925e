"""The files of deploy/ and the Dockerfile: they fit each other, and start nothing with too many rights."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "sluice"
TWO_SERVERS = DEPLOY / "kubernetes" / "two-servers.yaml"
PARTS = ("service", "dagster", "spark")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HELM = os.environ.get("SLUICE_HELM") or shutil.which("helm")
SCRIPTS = [DEPLOY / "install.sh", DEPLOY / "compose" / "account.sh", *sorted((DEPLOY / "bin").iterdir())]
SERVICE_KEYS = {"command", "depends_on", "entrypoint", "environment", "healthcheck", "network_mode", "ports", "restart"}
SERVICE_KEYS |= {"build", "cap_drop", "image", "read_only", "security_opt", "tmpfs", "volumes"}
"""What our services may have; each is a key of the Compose Specification."""


class UniqueKeys(yaml.SafeLoader):
    """Refuses a mapping that has a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if key.value != "<<"]
        assert len(names) == len(set(names)), f"{node.start_mark}: a key twice"
        return super().construct_mapping(node, deep)


def read(path: Path) -> Any:
    """The one document of a YAML file."""
    return yaml.load(path.read_text(), UniqueKeys)


def rendered(*arguments: str) -> list[dict[str, Any]]:
    """The manifests that helm makes of the chart."""
    done = subprocess.run([str(HELM), "template", "sluice", str(CHART), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.load_all(done.stdout, UniqueKeys) if one]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_scripts_are_programs_of_sh(script: Path) -> None:
    """Each can be run, and is parsed by sh."""
    assert os.access(script, os.X_OK)
    assert subprocess.run(["sh", "-n", str(script)], capture_output=True).stderr == b""


def test_the_install_script_knows_three_parts() -> None:
    """Anything else ends with the usage, before something is installed."""
    done = subprocess.run(["sh", str(DEPLOY / "install.sh"), "all"], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (1, f"install: usage: {DEPLOY / 'install.sh'} service|dagster|spark\n")
    assert {file.name for file in (DEPLOY / "bin").iterdir()} == {f"sluice-{part}" for part in (*PARTS, "monitor")}


def test_the_monitor_is_given_its_clusters(tmp_path: Path) -> None:
    """Each of SLUICE_CLUSTERS is an option of its own, before the command's further options; without one it ends."""
    program = tmp_path / "sluice-monitor"
    shutil.copy(DEPLOY / "bin" / "sluice-monitor", program)
    (tmp_path / "sluice").write_text('#!/bin/sh\nprintf "%s " "$@"\n')
    (tmp_path / "sluice").chmod(0o755)

    def said(**environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": os.environ["PATH"], **environment}
        return subprocess.run([program, "--once"], env=variables, capture_output=True, text=True)

    given = said(SLUICE_CLUSTERS="zk1:2181,zk2:2181/a zk3:2181/b", SLUICE_MYSQL_FILE="/etc/sluice/my.cnf")
    clusters = "--zookeeper zk1:2181,zk2:2181/a --zookeeper zk3:2181/b"
    assert given.stdout == f"monitor --once {clusters} --mysql-file /etc/sluice/my.cnf "
    assert said().returncode == 2
    assert "SLUICE_CLUSTERS is not set" in said().stderr


@pytest.mark.parametrize("part", PARTS)
def test_an_image_is_what_the_script_installs(part: str) -> None:
    """Each target of the Dockerfile calls it, ends as a user without rights, and starts its part."""
    text = (ROOT / "Dockerfile").read_text()
    stages = dict(re.findall(r"^FROM \S+ AS (\w+)\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL))

    assert stages.keys() == {"base", *PARTS}
    assert f"/src/deploy/install.sh {part} " in stages[part]
    assert re.findall(r"^USER (.*)$", stages[part], re.MULTILINE) == ["10001:10001"]
    assert f'ENTRYPOINT ["sluice-{part}"]' in stages[part]


def test_the_build_context_has_what_is_installed() -> None:
    """What .dockerignore lets in exists, and the packages and the script are among it."""
    lines = (ROOT / ".dockerignore").read_text().split()
    kept = {line[1:] for line in lines if line.startswith("!")}

    assert lines[0] == "*"
    assert {"cdc_core", "spark_jobs", "orchestration", "deploy", "pyproject.toml", "constraints.txt"} <= kept
    assert {name for name in kept if not (ROOT / name).exists()} == set()


def test_the_compose_file_is_well_formed() -> None:
    """Its services have keys of the specification, volumes that are declared, and services to depend on."""
    compose = read(DEPLOY / "compose" / "compose.yaml")
    services, volumes = compose["services"], compose["volumes"]

    assert {name for name in compose if not name.startswith("x-")} == {"name", "services", "volumes"}
    for name, service in services.items():
        assert service.keys() <= SERVICE_KEYS, name
        assert "image" in service, name
        assert set(service.get("depends_on", ())) <= services.keys(), name
        shared = service.get("network_mode", "service:code").partition(":")[2]
        assert shared in services, name
        for mount in service.get("volumes", ()):
            place = mount.split(":")[0]
            assert place in volumes or (DEPLOY / "compose" / place).exists(), mount
        if build := service.get("build"):
            assert (DEPLOY / "compose" / build["context"] / "Dockerfile").resolve() == ROOT / "Dockerfile"
            assert build["target"] in PARTS


def test_the_compose_file_has_no_password_of_its_own() -> None:
    """Secrets come from a file that its user writes, and doors are open to this machine alone."""
    compose = read(DEPLOY / "compose" / "compose.yaml")

    for name, service in compose["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN", variable):
                assert re.fullmatch(r"\$\{\w+:\?.*\}", value), variable
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        if str(service["image"]).startswith("sluice-"):
            assert service["read_only"], name
            assert service["cap_drop"] == ["ALL"], name


def test_the_parts_of_the_compose_file_find_each_other() -> None:
    """The properties name services of the file, and its destination has a defs.yaml."""
    compose = read(DEPLOY / "compose" / "compose.yaml")
    conf = (DEPLOY / "compose" / "conf" / "canal.properties").read_text()
    instance = (DEPLOY / "compose" / "conf" / "shop" / "instance.properties").read_text()
    hosts = set(re.findall(r"(?:register\.ip|zkServers|address) = ([a-z]+)", conf + instance))

    assert hosts == {"service", "zookeeper", "mysql"}
    assert hosts <= compose["services"].keys()
    assert read(DEPLOY / "compose" / "defs" / "shop" / "defs.yaml")["attributes"]["destination"] == "shop"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_start_installed_programs_without_rights(unit: Path) -> None:
    """Each starts a program of deploy/bin as the user `sluice`, who can become nobody else."""
    lines = unit.read_text().splitlines()
    program = next(line for line in lines if line.startswith("ExecStart=")).partition("=")[2].split()[0]

    assert Path(program).parent == Path("/opt/sluice/bin")
    assert (DEPLOY / "bin" / Path(program).name).is_file()
    assert {"User=sluice", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"} <= set(lines)
    named = " ".join(lines[i] for i in range(len(lines)) if lines[i].startswith(("After=", "Wants=")))
    assert {name for name in named.split() if name.startswith("sluice")} <= {file.name for file in UNITS}


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, with the programs where the script installs them."""
    for file in (DEPLOY / "bin").iterdir():
        shutil.copy(file, tmp_path)
    units = []
    for unit in UNITS:
        text = unit.read_text().replace("/opt/sluice/bin/", f"{tmp_path}/")
        units.append(tmp_path / unit.name)
        units[-1].write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)

    ours = [line for line in done.stderr.splitlines() if "sluice" in line]
    assert (ours, done.returncode) == ([], 0), done.stderr


def test_templates_use_values_that_the_chart_has() -> None:
    """Each `.Values.a.b` is in values.yaml, and each value is used."""
    values = read(CHART / "values.yaml")
    text = "".join(file.read_text() for file in (CHART / "templates").iterdir())
    used = set(re.findall(r"\.Values\.([\w.]+)", text))
    known = {*values} | {f"{top}.{key}" for top, rest in values.items() if isinstance(rest, dict) for key in rest}
    known |= {"service.tls.secret", *(f"{top}.storage.{key}" for top in ("service", "dagster") for key in ("size",))}
    known |= {f"{top}.storage.className" for top in ("service", "dagster")}

    assert used <= known
    unused = {name for name in known if not any(one == name or one.startswith(f"{name}.") for one in used)}
    assert unused == set()


def test_the_chart_has_no_secret_of_its_own() -> None:
    """Values name an existing Secret; no template makes one."""
    assert read(CHART / "values.yaml")["secret"] == ""
    assert not any("kind: Secret" in file.read_text() for file in (CHART / "templates").iterdir())


needs_helm = pytest.mark.skipif(not HELM, reason="helm is not installed: SLUICE_HELM=/path/helm")


@needs_helm
def test_helm_finds_no_fault_in_the_chart() -> None:
    """`helm lint --strict`, with the values of the example."""
    done = subprocess.run([str(HELM), "lint", "--strict", str(CHART), "-f", str(TWO_SERVERS)], capture_output=True)

    assert done.returncode == 0, done.stdout.decode()


@needs_helm
@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [([], "name an existing Secret"), (["--set", "secret=s,service.replicas=2"], "needs service.zookeeper")],
)
def test_the_chart_refuses_what_cannot_run(arguments: list[str], wrong: str) -> None:
    """Without a Secret, and with two servers that do not know each other."""
    done = subprocess.run([str(HELM), "template", "x", str(CHART), *arguments], capture_output=True, text=True)

    assert done.returncode == 1
    assert wrong in done.stderr


@needs_helm
@pytest.mark.parametrize("arguments", [["-f", str(TWO_SERVERS)], ["--set", "secret=s,dagster.enabled=false"]])
def test_pods_run_without_rights(arguments: list[str]) -> None:
    """As a user that is not root, on a file system that is read-only, with mounts that are declared."""
    pods = [
        one["spec"]["template"]["spec"] for one in rendered(*arguments) if one["kind"] in ("StatefulSet", "Deployment")
    ]

    assert len(pods) == (2 if "-f" in arguments else 1)
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        volumes = {volume["name"] for volume in pod["volumes"]} | {"data"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert not security["allowPrivilegeEscalation"]
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@needs_helm
def test_the_example_has_two_servers_and_their_destination() -> None:
    """The rendered configuration is one that the service reads: ZooKeeper, a name of each server, TLS."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in rendered("-f", str(TWO_SERVERS))}
    conf = found["ConfigMap", "sluice-conf"]["data"]
    lines = dict(line.split(" = ", 1) for line in conf["canal.properties"].splitlines() if line)

    assert found["StatefulSet", "sluice-service"]["spec"]["replicas"] == 2
    assert lines["canal.zkServers"] == "zookeeper:2181/sluice"
    assert lines["canal.register.ip"] == "${SLUICE_ADDRESS}"
    assert lines["sluice.tls.key"] == "/etc/sluice/tls/tls.key"
    assert "canal.instance.filter.regex = shop\\\\..*" in conf["shop"]
    defs = yaml.safe_load(found["ConfigMap", "sluice-defs"]["data"]["shop"])
    assert defs["attributes"]["destination"] == "shop"
