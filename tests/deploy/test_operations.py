"""The operations kit: dashboard, alert rules and Kubernetes manifests, beside what a server really says."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml
from conftest import tandem_binary
from harness.server import HOST, PATIENCE_S, free_port
from harness.tls import make_identity
from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "deploy/monitoring/grafana-dashboard.json"
ALERTS = ROOT / "deploy/monitoring/alerts.yaml"
KUBERNETES = ROOT / "deploy/kubernetes"
# What Prometheus adds to each sample of a scrape, and the one sample that it makes itself.
ADDED_LABELS = {"job", "instance"}
OWN = {"up": {"job", "instance"}}
# Of memcached_exporter 0.15.
EXPORTER_LABELS = {"memcached_commands_total": {"command", "status"}, "memcached_version": {"version"}}

Scrape = dict[str, set[str]]  # names of samples, and their labels


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def wait_for(port: int, path: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if get(port, path)[0] == 200:
                return
        except OSError:
            pass
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[int]:
    """The monitoring port of a server that has met every kind of command, with a (simulated) GPU."""
    port, metrics = free_port(), free_port()
    command = [tandem_binary(), "serve", "--port", str(port), "--metrics", f"{HOST}:{metrics}", "--threads", "1"]
    command += ["--memory", "64MiB", "--gpu", "sim", "--preset", "mirrored"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(metrics, "/healthz")
        with socket.create_connection((HOST, port), timeout=20) as connection:
            for _ in range(200):  # a few passes of them are sampled
                connection.sendall(b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\ndelete b\r\nmg a v\r\nmn\r\n")
                reply = b""
                while not reply.endswith(b"MN\r\n"):
                    reply += connection.recv(65536)
        yield metrics
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


def scraped(text: str) -> Scrape:
    found: Scrape = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.fixture(scope="module")
def scrape(endpoint: int, tmp_path_factory: pytest.TempPathFactory) -> Scrape:
    """Of that server, and of one with a certificate and a memory file."""
    folder = tmp_path_factory.mktemp("files")
    identity = make_identity(folder, "served")
    metrics = free_port()
    command = [tandem_binary(), "serve", "--port", "-1", "--metrics", f"{HOST}:{metrics}", "--memory", "64MiB"]
    command += ["--memory-file", folder / "memory", "--tls-cert", identity.certificate, "--tls-key", identity.key]
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.DEVNULL)
    try:
        wait_for(metrics, "/healthz")
        return scraped(get(metrics, "/metrics")[1]) | scraped(get(endpoint, "/metrics")[1])
    finally:
        process.kill()
        process.wait()


# --- PromQL -----------------------------------------------------------------------------------------------------------


def problems(expression: str, scrape: Scrape) -> list[str]:
    """What is wrong with an expression: its grammar, and names and labels that no scrape has."""
    text = expression.replace("$__rate_interval", "5m").replace("$__interval", "1m").replace("$__range", "1h")
    try:
        tree = promql_parser.parse(text)
    except ValueError as error:
        return [f"{expression}: {error}"]
    found: list[str] = []

    def visit(node: object) -> set[str]:
        """The labels that may be in the node's result."""
        if isinstance(node, promql_parser.VectorSelector):
            labels = scrape.get(node.name, OWN.get(node.name))
            if labels is None:
                found.append(f"{expression}: no scrape has {node.name}")
                return set()
            unknown = {m.name for m in node.matchers.matchers} - labels - ADDED_LABELS
            found.extend(f"{expression}: {node.name} has no label {label}" for label in sorted(unknown))
            return labels | ADDED_LABELS
        labels: set[str] = set()
        for name in ("lhs", "rhs", "expr", "param", "vector_selector", "args"):
            child = getattr(node, name, None)
            for each in child if isinstance(child, list) else [child]:
                if each is not None and not isinstance(each, str | int | float):
                    labels |= visit(each)
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            kept = set(node.modifier.labels)
            found.extend(f"{expression}: nothing to group by: {label}" for label in sorted(kept - labels))
        return labels

    visit(tree)
    return found


@pytest.mark.parametrize(
    "expression",
    [
        "rate(tandem_commands_total[5m]",
        "rate(tandem_no_such_total[5m])",
        'tandem_commands_total{no_such="x"}',
        "sum by (no_such) (tandem_commands_total)",
    ],
)
def test_a_wrong_expression_is_found(expression: str, scrape: Scrape) -> None:
    assert len(problems(expression, scrape)) == 1


def test_every_expression_of_the_dashboard_is_of_this_servers_metrics(scrape: Scrape) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    targets = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    targets += [a["expr"] for a in dashboard["annotations"]["list"] if "expr" in a]
    variables = [v["query"]["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    targets += [re.fullmatch(r"label_values\((.+), \w+\)", query)[1] for query in variables]
    assert len(targets) > 25
    assert [problem for target in targets for problem in problems(target, scrape)] == []


def test_the_dashboard_is_whole() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["targets"], panel["title"]
    known = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
    assert set(re.findall(r"\$\{?(\w+)\}?", DASHBOARD.read_text())) <= known


def test_every_rule_is_of_this_servers_metrics(scrape: Scrape) -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len(rules) >= 8
    assert [problem for rule in rules for problem in problems(rule["expr"], scrape)] == []
    names = [rule["alert"] for rule in rules]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"Tandem[A-Z]\w+", name) for name in names)
    page = (ROOT / "docs/monitoring.md").read_text()
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert re.fullmatch(r"\d+[mh]", rule.get("for", "0m"))
        assert f"`{rule['alert']}`" in page, f"docs/monitoring.md does not say what to do about {rule['alert']}"


# --- the endpoint -----------------------------------------------------------------------------------------------------


def test_build_info_and_health(endpoint: int) -> None:
    version = subprocess.run([tandem_binary(), "version"], capture_output=True, text=True).stdout.split()[1]
    assert f'tandem_build_info{{version="{version}",commit="' in get(endpoint, "/metrics")[1]
    assert get(endpoint, "/healthz") == (200, "ok\n")
    assert get(endpoint, "/health")[0] == 404


def test_the_exporters_names(endpoint: int) -> None:
    text = get(endpoint, "/metrics/memcached")[1]
    found = scraped(text)
    assert all(name.startswith("memcached_") for name in found)
    for name, labels in found.items():
        wanted = {"slab"} if name.startswith("memcached_slab_") else EXPORTER_LABELS.get(name, set())
        assert labels == wanted, name
    assert 'memcached_commands_total{command="get",status="hit"} 400' in text  # of get and mg
    assert "memcached_up 1\n" in text and 'memcached_version{version="1.6.18"} 1\n' in text
    assert "memcached_current_items 1\n" in text


def test_process_and_flushes(endpoint: int) -> None:
    text = get(endpoint, "/metrics")[1]
    values = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples}
    assert abs(values["process_start_time_seconds"] + values["tandem_uptime_seconds"] - time.time()) < 60
    assert values["process_open_fds"] >= 10
    assert values["tandem_flushes_total"] == values["tandem_accept_failures_total"] == 0
    assert not {name for name in values if name.startswith("tandem_restart") or "_certificate_" in name}


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def manifests() -> list[dict]:
    return [m for path in sorted(KUBERNETES.glob("*.yaml")) for m in yaml.safe_load_all(path.read_text())]


def one(kind: str) -> dict:
    (found,) = (m for m in manifests() if m["kind"] == kind)
    return found


def test_selectors_and_ports_fit() -> None:
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    for kind in ("Service", "StatefulSet", "ServiceMonitor", "PodDisruptionBudget"):
        selector = one(kind)["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels.items(), kind
    assert (
        one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= one("Service")["metadata"]["labels"].items()
    )
    assert one("StatefulSet")["spec"]["serviceName"] == one("Service")["metadata"]["name"]
    (container,) = one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {p["targetPort"]: p["port"] for p in one("Service")["spec"]["ports"]} == ports
    assert {e["port"] for e in one("ServiceMonitor")["spec"]["endpoints"]} <= {
        p["name"] for p in one("Service")["spec"]["ports"]
    }
    assert f"*:{ports['metrics']}" in container["args"]
    project = re.search(r'version = "([0-9.]+)"', (ROOT / "src/options/version.hpp").read_text())
    assert container["image"] == f"tandem:{project[1]}"


def test_the_operators_rules_are_the_rules() -> None:
    assert one("PrometheusRule")["spec"] == yaml.safe_load(ALERTS.read_text())


def test_the_operators_targets_are_named_after_their_pods() -> None:
    (relabelling,) = one("ServiceMonitor")["spec"]["endpoints"][0]["relabelings"]
    assert relabelling == {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"}


def test_a_job_without_targets_is_noticed() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert [rule["expr"] for rule in rules if rule["alert"] == "TandemAbsent"] == ['absent(up{job="tandem"})']


def at(manifest: object, path: str) -> object:
    """What a JSON pointer points to."""
    for step in path.strip("/").split("/"):
        manifest = manifest[int(step)] if isinstance(manifest, list) else manifest[step]
    return manifest


def test_the_kustomization_changes_what_is_there() -> None:
    kustomization = one("Kustomization")
    for name in kustomization["resources"]:
        assert (KUBERNETES / name).is_file(), name
    stateful = one("StatefulSet")
    (image,), (replicas,), (patch,) = (kustomization[key] for key in ("images", "replicas", "patches"))
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    assert f"{image['name']}:{image['newTag']}" == container["image"]
    assert (replicas["name"], replicas["count"]) == (stateful["metadata"]["name"], stateful["spec"]["replicas"])
    assert (patch["target"]["kind"], patch["target"]["name"]) == ("StatefulSet", stateful["metadata"]["name"])
    steps = yaml.safe_load(patch["patch"])
    assert [at(stateful, step["path"]) for step in steps] == [step["value"] for step in steps]
    assert container["args"][3] == "--memory", "the patch names the word behind it by its number"


def test_the_network_policy_is_about_the_pods_and_their_ports() -> None:
    policy = one("NetworkPolicy")["spec"]
    template = one("StatefulSet")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (container,) = template["spec"]["containers"]
    assert {p["port"] for rule in policy["ingress"] for p in rule["ports"]} == {p["name"] for p in container["ports"]}
    assert all(rule["from"] for rule in policy["ingress"]) and policy["egress"] == []


def test_the_commented_volumes_are_a_manifest() -> None:
    lines = (KUBERNETES / "tandem.yaml").read_text().splitlines()
    kept = [re.sub(r"^( *)# (?=(?: *- |volume| +\w+:))", r"\1", line) for line in lines]
    (stateful,) = (m for m in yaml.safe_load_all("\n".join(kept)) if m["kind"] == "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    names = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == names == {"memory", "passwords"}


def quantity(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(GiB|Gi|MiB|Mi)", text).groups()
    return int(number) << (30 if unit.startswith("G") else 20)


def test_the_pods_server_serves_and_its_probes_answer() -> None:
    (container,) = one("StatefulSet")["spec"]["template"]["spec"]["containers"]
    arguments = list(container["args"])
    limit = quantity(container["resources"]["limits"]["memory"])
    assert quantity(arguments[arguments.index("--memory") + 1]) <= limit * 3 / 4
    assert container["resources"]["limits"] == container["resources"]["requests"]
    port, metrics = free_port(), free_port()
    # Not reachable from outside, and beside other servers.
    arguments = [{"*": HOST, "*:9150": f"{HOST}:{metrics}"}.get(word, word) for word in arguments]
    process = subprocess.Popen([tandem_binary(), *arguments, "--port", str(port)], stderr=subprocess.DEVNULL)
    try:
        for probe in ("startupProbe", "readinessProbe"):
            wait_for(metrics, container[probe]["httpGet"]["path"])
        assert get(metrics, one("ServiceMonitor")["spec"]["endpoints"][0]["path"])[0] == 200
        with socket.create_connection((HOST, port), timeout=20):
            pass
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
