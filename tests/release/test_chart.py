"""The Helm chart: what it makes is valid, and by default what kustomize makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from release.artefacts import ROOT, TOOLS, artefact, output

KUBERNETES = "1.37.0"  # the newest that kubernetes-validate knows
ALL = "prometheusOperator.enabled=true,metricsTokenSecret=t,memoryFile.enabled=true,passwordsSecret=p"
OPERATOR = "prometheusOperator.enabled=true"


def helm(*words: object) -> str:
    done = subprocess.run([TOOLS / "helm", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def template(*words: str) -> str:
    return helm("template", "tandem", artefact("tandem-[0-9]*.tgz"), "--kube-version", KUBERNETES, *words)


def test_the_linter_has_nothing_to_say() -> None:
    said = helm("lint", "--strict", "--kube-version", KUBERNETES, artefact("tandem-[0-9]*.tgz"))
    assert "WARNING" not in said and "ERROR" not in said


@pytest.mark.parametrize("values", ["replicas=1", ALL, "networkPolicy.enabled=false,extraArgs={--eviction,s3-fifo}"])
def test_what_it_makes_is_valid(values: str, tmp_path: Path) -> None:
    (tmp_path / "made.yaml").write_text(template("--set", values))
    said = output(TOOLS / "python/bin/kubernetes-validate", "--strict", tmp_path / "made.yaml")
    assert "passed for resource statefulset/tandem" in said


def plain(manifest: object) -> object:
    """Without what Helm adds: its labels, and a pull policy that is Kubernetes' default for a version."""
    if isinstance(manifest, list):
        return [plain(entry) for entry in manifest]
    if not isinstance(manifest, dict):
        return manifest
    added = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
    return {key: plain(value) for key, value in manifest.items() if key not in (*added, "imagePullPolicy")}


def test_it_makes_what_kustomize_makes() -> None:
    made = {m["kind"]: plain(m) for m in yaml.safe_load_all(template("--set", OPERATOR)) if m}
    wanted = {}
    for path in (ROOT / "deploy/kubernetes").glob("*.yaml"):
        wanted |= {m["kind"]: plain(m) for m in yaml.safe_load_all(path.read_text())}
    del wanted["Kustomization"]
    assert made == wanted


def test_its_values_take_effect() -> None:
    made = {
        m["kind"]: m for m in yaml.safe_load_all(template("--set", f"{ALL},replicas=5,memory=7GiB,image.tag=9")) if m
    }
    pod = made["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert made["StatefulSet"]["spec"]["replicas"] == 5
    assert container["image"] == "tandem:9"
    words = container["args"]
    for option, value in (
        ("--memory", "7GiB"),
        ("--memory-file", "/memory/items"),
        ("--auth-file", "/passwords/users"),
        ("--metrics-token-file", "/metrics-token/token"),
    ):
        assert words[words.index(option) + 1] == value
    paths = {"memory": "/memory", "passwords": "/passwords", "metrics-token": "/metrics-token"}
    assert {m["name"]: m["mountPath"] for m in container["volumeMounts"]} == paths
    secrets = {v["name"]: v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v}
    assert {v["name"] for v in pod["volumes"]} == set(paths) and secrets == {"passwords": "p", "metrics-token": "t"}
    assert pod["securityContext"]["fsGroup"] == 11211
    assert made["ServiceMonitor"]["spec"]["endpoints"][0]["authorization"]["credentials"]["name"] == "t"


def test_a_fleets_member_is_a_second_container(tmp_path: Path) -> None:
    """Beside volumes of the chart's own, and as the component of deploy/kubernetes has it."""
    made = template("--set", f"{ALL},member.enabled=true,member.drain=90,member.extraArgs={{--ttl,15}}")
    (tmp_path / "made.yaml").write_text(made)
    output(TOOLS / "python/bin/kubernetes-validate", "--strict", tmp_path / "made.yaml")
    manifests = {m["kind"]: m for m in yaml.safe_load_all(made) if m}
    pod = manifests["StatefulSet"]["spec"]["template"]["spec"]
    server, member = pod["containers"]
    assert server["args"][-2:] == ["--control", "/control/socket"]
    assert "/control" in {m["mountPath"] for m in server["volumeMounts"]}
    assert server["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "100"]
    assert pod["terminationGracePeriodSeconds"] == 240
    assert member["command"] == ["tandem-member"] and member["args"][-4:] == ["--drain", "90", "--ttl", "15"]
    component = yaml.safe_load((ROOT / "deploy/kubernetes/member/kustomization.yaml").read_text())
    (added,) = [
        p["value"] for p in yaml.safe_load(component["patches"][0]["patch"]) if p["path"].endswith("containers/-")
    ]
    names = {word.partition("=")[0] for word in added["args"]}
    assert names == {word for word in member["args"][:-2] if word.startswith("--")} | {"run"}
    assert added["securityContext"] == member["securityContext"] and added["resources"] == member["resources"]
    egress = manifests["NetworkPolicy"]["spec"]["egress"]
    assert egress == yaml.safe_load(component["patches"][1]["patch"])[0]["value"]
