"""The files of `examples/containers`: valid by their schemas, and what is in them works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import yaml

from resource_server.runtime.timing import DEFAULT_TIMING
from tests.commands import command
from tests.nginx import EXAMPLES, balancing, needs_nginx
from tests.transports.http.fleet.fleets import Redis, redis_server
from tests.transports.program import Program, modern, request, running

ROOT = EXAMPLES.parent
FOLDER = EXAMPLES / "containers"
README = (FOLDER / "README.md").read_text("utf-8")
MANIFEST = (FOLDER / "mcp-resources.yaml").read_text("utf-8")
DOCKERFILE = dict(re.findall(r"^([A-Z]+) (.*)$", (ROOT / "Dockerfile").read_text("utf-8"), re.M))
"""The last of each instruction."""
TOKEN, KEY = "one-token-of-these-tests", "one key of these tests, long enough"
BEARER = {"authorization": f"Bearer {TOKEN}"}
DOCUMENT = "file:///project/README.md"
PORT = 8000
STORE = "redis://store:6379/0"
OWN: Mapping[str, None] = dict.fromkeys(("networks", "build", "pull_policy"))
"""What the servers of Compose do not have in common."""
MARGIN_S = 5

COMPOSE: Mapping[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: Mapping[str, Any] = COMPOSE["services"]
OBJECTS: Mapping[tuple[str, str], Any] = {
    (each["kind"], each["metadata"]["name"]): each
    for each in yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8"))
}


def pod(name: str) -> Any:
    """Return the specification of a Deployment's pods."""
    return OBJECTS["Deployment", name]["spec"]["template"]["spec"]


def contained(name: str) -> Any:
    """Return the one container of such a pod."""
    [found] = pod(name)["containers"]
    return found


class Container(NamedTuple):
    """The server's container, as one of the files describes it."""

    arguments: list[str]
    variables: set[str]
    files: Mapping[str, str | Path]
    """Contents, or the folders they come from, by their paths."""
    has_links: bool
    """Whether its files are symlinks, as in volumes of Kubernetes."""

    def placed(self, place: Path, store: str) -> Path:
        """Make its files below a folder, where they name each other; return the manifest."""
        for path, content in self.files.items():
            target = place / path[1:]
            if isinstance(content, Path):
                shutil.copytree(content, target, ignore=shutil.ignore_patterns(".cache"))
                continue
            text = content.replace(STORE, store)
            for each in self.files:
                text = text.replace(f" {each}", f" {place}{each}")
            write(target, text, has_links=self.has_links)
        return place / self.arguments[1][1:]

    @contextmanager
    def running(self, manifest: Path) -> Generator[Program]:
        """Run it with its own options, but on a free port."""
        serve, _, address, *options = self.arguments
        assert (serve, address) == ("serve", f"--http=0.0.0.0:{PORT}")
        environment = dict.fromkeys(self.variables, TOKEN)
        with running(manifest, *options, http="0.0.0.0:0", env=environment) as program:
            yield program


def write(target: Path, text: str, *, has_links: bool) -> None:
    """Write a file, perhaps as the kubelet does, which replaces its folder in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not has_links:
        target.write_text(text)
        return
    folder = target.parent / f"..{len(list(target.parent.iterdir()))}"
    folder.mkdir()
    (folder / target.name).write_text(text)
    (target.parent / "..new").symlink_to(folder.name)
    (target.parent / "..new").rename(target.parent / "..data")
    if not target.is_symlink():
        target.symlink_to(f"..data/{target.name}")


def in_compose() -> Container:
    service = SERVICES["server-1"]
    files: dict[str, str | Path] = {}
    for each in service["volumes"]:
        assert each["read_only"]
        source = FOLDER / each["source"]
        files[each["target"]] = source if source.is_dir() else source.read_text("utf-8")
    files |= {f"/run/secrets/{name}": KEY for name in service["secrets"]}
    return Container(service["command"], set(service["environment"]), files, has_links=False)


def in_kubernetes() -> Container:
    found = contained("resource-server")
    volumes = {each["name"]: each for each in pod("resource-server")["volumes"]}
    files: dict[str, str | Path] = {}
    for mount in found["volumeMounts"]:
        path, volume = mount["mountPath"], volumes.pop(mount["name"])
        if "emptyDir" in volume:
            continue
        assert mount["readOnly"]
        if "configMap" in volume:
            data = OBJECTS["ConfigMap", volume["configMap"]["name"]]["data"]
            files |= {f"{path}/{name}": text for name, text in data.items()}
        elif "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440  # read by the group of the pod
            for each in volume["secret"]["items"]:
                assert each["key"] in secret(volume["secret"]["secretName"])
                files[f"{path}/{each['path']}"] = KEY
        else:
            claim = volume["persistentVolumeClaim"]
            assert ("PersistentVolumeClaim", claim["claimName"]) in OBJECTS
            assert claim["readOnly"]
            files[path] = EXAMPLES / "project"
    assert not volumes
    for each in found["env"]:
        source = each["valueFrom"]["secretKeyRef"]
        assert source["key"] in secret(source["name"])
    return Container(found["args"], {each["name"] for each in found["env"]}, files, has_links=True)


def secret(name: str) -> list[str]:
    """Return the keys of a Secret, as the README makes it."""
    assert ("Secret", name) not in OBJECTS  # whoever applies the file again keeps theirs
    [line] = re.findall(rf"^kubectl create secret generic {name} (.*)$", README, re.MULTILINE)
    return re.findall(r"--from-(?:file|literal)=([\w.]+)=", line)


@pytest.fixture(params=[in_compose, in_kubernetes])
def container(request: pytest.FixtureRequest) -> Container:
    return request.param()


STORES: Mapping[str, list[str]] = {
    "compose": SERVICES["store"]["command"],
    "kubernetes": contained("store")["args"],
}


@pytest.fixture
def store(tmp_path: Path) -> Generator[Redis]:
    with redis_server(tmp_path) as found:
        yield found


def done(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# -- their schemas


def test_compose_accepts_its_file() -> None:
    schema = ("check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    checked = done(sys.executable, "-m", *schema, FOLDER / "compose.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_accepts_every_object(version: str) -> None:
    check = (sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version)
    checked = done(*check, FOLDER / "kubernetes.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    # A kind without a schema would only be a warning.
    assert re.findall(r"^(\w+) ", checked.stdout, re.M) == ["INFO"] * len(OBJECTS), checked.stdout


# -- what schemas cannot know


def test_the_same_is_served_everywhere() -> None:
    assert OBJECTS["ConfigMap", "resource-server"]["data"] == {"mcp-resources.yaml": MANIFEST}
    one, two = SERVICES["server-1"], SERVICES["server-2"]
    assert {**one, **OWN} == {**two, **OWN}
    assert OBJECTS["Deployment", "resource-server"]["spec"]["replicas"] > 1


def test_check_finds_nothing_wrong_with_the_manifest(container: Container, tmp_path: Path) -> None:
    manifest = container.placed(tmp_path, STORE)
    assert set(re.findall(r"\$\{(\w+)", MANIFEST)) == container.variables
    checked = done(*command(), "check", manifest, **dict.fromkeys(container.variables, TOKEN))
    assert checked.returncode == 0, checked.stdout
    assert not checked.stderr
    assert "warning" not in checked.stdout


@pytest.mark.parametrize("missing", ["token", "key"])
def test_a_server_without_its_token_or_key_does_not_start(
    container: Container, tmp_path: Path, missing: str
) -> None:
    manifest = container.placed(tmp_path, STORE)
    if missing == "key":
        (tmp_path / "run/secrets/server.key").unlink()
    given = {} if missing == "token" else dict.fromkeys(container.variables, TOKEN)
    refused = done(*command(), "serve", manifest, *container.arguments[2:], **given)
    assert refused.returncode == 2
    assert {"token": "RESOURCE_SERVER_TOKEN", "key": "key.file"}[missing] in refused.stderr


def test_a_server_serves_callers_with_the_token_and_finds_the_store(
    container: Container, tmp_path: Path, store: Redis
) -> None:
    expected = (EXAMPLES / "project/README.md").read_text("utf-8")
    with container.running(container.placed(tmp_path, store.url)) as program:
        assert program.ask(modern("resources/read", {"uri": DOCUMENT})).status == 401
        for host in ("127.0.0.1:8080", "files.example.org"):
            read = modern("resources/read", {"uri": DOCUMENT}, host=host, **BEARER)
            assert program.ask(read).json["result"]["contents"][0]["text"] == expected
        metrics = request("GET", path="/metrics")
        program.until(lambda: b"\nresource_server_fleet_up 1.0" in program.ask(metrics).body)
        assert program.end(15) == 0


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_probes_tell_a_ready_server_from_one_without_its_folder(
    container: Container, tmp_path: Path, store: Redis, is_ready: bool
) -> None:
    manifest = container.placed(tmp_path, store.url)
    if not is_ready:
        (tmp_path / "data").rename(tmp_path / "elsewhere")
    with container.running(manifest) as program:
        program.until(lambda: answers(program, "/readyz") == is_ready)
        if container.has_links:
            found = contained("resource-server")
            probes = [found[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness")]
            assert {each["port"] for each in probes} == {"http"}
            assert answers(program, probes[0]["path"])
            assert answers(program, probes[1]["path"]) == is_ready
        else:
            kind, _, option, code = SERVICES["server-1"]["healthcheck"]["test"]
            assert kind == "CMD"
            assert code.count(f":{PORT}/") == 1
            code = code.replace(f":{PORT}/", f":{program.port}/")
            assert (done(sys.executable, option, code).returncode == 0) == is_ready


def answers(program: Program, path: str) -> bool:
    """Return what a kubelet finds, which asks for the address of a pod without a token."""
    return program.ask(request("GET", path=path, host=f"10.1.2.3:{PORT}")).status == 200


def test_a_changed_config_map_is_reloaded(tmp_path: Path, store: Redis) -> None:
    container = in_kubernetes()
    manifest = container.placed(tmp_path, store.url)
    uri = DOCUMENT.replace("project", "renamed")
    with container.running(manifest) as program:
        write(manifest, manifest.read_text().replace("  project:", "  renamed:"), has_links=True)
        read = modern("resources/read", {"uri": uri}, **BEARER)
        program.until(lambda: "result" in program.ask(read).json)


@pytest.mark.parametrize("name", STORES)
def test_the_store_takes_its_options_and_keeps_nothing_on_disk(name: str, tmp_path: Path) -> None:
    program, *options = STORES[name]
    assert program == "valkey-server"
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert (given["--save"], given["--appendonly"]) == ("", "no")
    with redis_server(tmp_path, *options) as found:
        assert str(96 << 20) in str(found.ask("CONFIG", "GET", "maxmemory"))
    url = httpx2.URL(STORE)
    [port] = OBJECTS["Service", "store"]["spec"]["ports"]
    [open_port] = contained("store")["ports"]
    assert url.host in SERVICES
    assert url.port == port["port"] == open_port["containerPort"]
    assert port["targetPort"] == open_port["name"]


@needs_nginx
def test_nginx_passes_only_the_endpoint_to_both_servers(tmp_path: Path, store: Redis) -> None:
    container, nginx = in_compose(), SERVICES["nginx"]
    assert {each["target"]: each["source"] for each in nginx["volumes"]} == {
        "/etc/nginx/nginx.conf": "nginx.conf",
        "/etc/nginx/locations.conf": "../http/locations.conf",
    }
    [published] = nginx["ports"]
    bound, _, inside = published.rpartition(":")
    assert bound == "127.0.0.1:8080"
    manifest = container.placed(tmp_path, store.url)
    with container.running(manifest) as one, container.running(manifest) as two:
        replaced = {
            f"/tmp/{name}": f"{tmp_path}/{name}"  # noqa: S108
            for name in ("nginx.pid", "client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        }
        for name, program in (("server-1", one), ("server-2", two)):
            assert name in SERVICES
            replaced[f"server {name}:{PORT};"] = f"server 127.0.0.1:{program.port};"
        config = FOLDER / "nginx.conf"
        with (
            balancing(tmp_path, config, inside, replaced) as port,
            httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client,
        ):
            for path in ("/metrics", "/readyz", "/healthz", "/"):
                assert client.get(path).status_code == 404
            assert client.get("/mcp").status_code == 401
            assert [client.get("/mcp", headers=BEARER).status_code for _ in "1234"] == [400] * 4
        for program in (one, two):
            assert program.end(15) == 0
            lines = [json.loads(line) for line in program.errors if line.startswith("{")]
            assert len(lines) >= 2


def test_a_server_trusts_the_balancer_alone() -> None:
    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    fixed = [
        ip_address(each["networks"]["default"]["ipv4_address"])
        for each in SERVICES.values()
        if "networks" in each
    ]
    assert len(set(fixed)) == 3
    for address in fixed:
        assert address in ip_network(network["subnet"])
        assert address not in ip_network(network["ip_range"])  # of services without one
    nginx = SERVICES["nginx"]["networks"]["default"]["ipv4_address"]
    assert f"--forwarded-allow-ips={nginx}" in in_compose().arguments


def test_every_port_and_label_leads_to_a_container() -> None:
    assert DOCKERFILE["EXPOSE"] == str(PORT)
    [port] = contained("resource-server")["ports"]
    assert port["containerPort"] == PORT
    for name in ("resource-server", "store"):
        labels = OBJECTS["Deployment", name]["spec"]["template"]["metadata"]["labels"]
        assert OBJECTS["Deployment", name]["spec"]["selector"]["matchLabels"] == labels
        service = OBJECTS["Service", name]["spec"]
        assert service["selector"] == labels
        assert "sessionAffinity" not in service
        [open_port] = contained(name)["ports"]
        assert [each["targetPort"] for each in service["ports"]] == [open_port["name"]]
    disruption = OBJECTS["PodDisruptionBudget", "resource-server"]["spec"]
    assert disruption["selector"]["matchLabels"] == {"app": "resource-server"}
    [rule] = OBJECTS["Ingress", "resource-server"]["spec"]["rules"]
    assert rule["host"] in MANIFEST
    [path] = rule["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/mcp", "Exact")
    target = path["backend"]["service"]
    [front] = OBJECTS["Service", target["name"]]["spec"]["ports"]
    assert target["port"]["name"] == front["name"]
    policy = OBJECTS["NetworkPolicy", "store"]["spec"]
    assert policy["podSelector"]["matchLabels"] == {"app": "store"}
    assert policy["ingress"] == [
        {
            "from": [{"podSelector": {"matchLabels": {"app": "resource-server"}}}],
            "ports": [{"port": 6379}],
        }
    ]


def test_no_container_may_do_more_than_it_needs() -> None:
    for service in SERVICES.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
        assert not {"privileged", "cap_add", "network_mode", "pid"} & set(service)
    for name in ("resource-server", "store"):
        # The standard "restricted" of Kubernetes, and a read-only file system.
        spec, found = pod(name), contained(name)
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert found["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert found["resources"]["limits"]["memory"]


def test_the_containers_use_the_image_as_it_is() -> None:
    assert json.loads(DOCKERFILE["ENTRYPOINT"]) == ["resource-server"]
    user = pod("resource-server")["securityContext"]
    assert user["fsGroup"] == user["runAsGroup"]
    assert f"{user['runAsUser']}:{user['runAsGroup']}" == DOCKERFILE["USER"]
    for name in ("server-1", "server-2"):
        assert SERVICES[name]["user"] == DOCKERFILE["USER"]
        assert "entrypoint" not in SERVICES[name]
    # One service builds the image, and nobody asks a registry for it.
    builds = {name: each["build"] for name, each in SERVICES.items() if "build" in each}
    assert list(builds) == ["server-1"]
    assert (FOLDER / builds["server-1"] / "Dockerfile").samefile(ROOT / "Dockerfile")
    assert [SERVICES[f"server-{n}"]["pull_policy"] for n in (1, 2)] == ["build", "never"]
    assert "command" not in contained("resource-server")


def test_a_server_has_the_time_to_end() -> None:
    needed_s = DEFAULT_TIMING.shutdown_timeout_s + MARGIN_S
    assert float(SERVICES["server-1"]["stop_grace_period"].removesuffix("s")) >= needed_s
    asleep_s = contained("resource-server")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod("resource-server")["terminationGracePeriodSeconds"] >= needed_s + asleep_s


# -- the README


def test_the_commands_of_the_readme_make_the_key_and_the_token(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    script = re.sub(r"^\$ ", "", block, flags=re.MULTILINE)
    (tmp_path / "examples/containers").mkdir(parents=True)
    shell = ["sh", "-euc", f'{script}echo "$RESOURCE_SERVER_TOKEN"']
    made = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"[0-9a-f]{64}\n", made.stdout)
    key = tmp_path / FOLDER.relative_to(ROOT) / COMPOSE["secrets"]["server.key"]["file"]
    assert re.fullmatch(r"[0-9a-f]{64}\n", key.read_text())
    assert key.stat().st_mode & 0o777 == 0o444
    assert key.parent.stat().st_mode & 0o777 == 0o700
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"/{key.parent.relative_to(tmp_path)}/" in ignored


def test_the_commands_that_need_docker_or_a_cluster_name_what_exists() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    image = contained("resource-server")["image"]
    assert f"docker push {image}\n" in blocks[-1]
    for line in "".join(blocks).splitlines():
        program, *words = shlex.split(line)
        assert program in ("docker", "kubectl"), line
        for word in words:
            if (name := word.rpartition("=")[2]).startswith("examples/") and "secrets" not in name:
                assert (ROOT / name).is_file(), line
        if "--no-deps" in words:
            assert words[-1] in SERVICES
    assert SERVICES["server-1"]["environment"].keys() == {"RESOURCE_SERVER_TOKEN"}
