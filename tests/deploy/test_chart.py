"""The Helm chart, as far as it can be checked without Helm; `make release` lints and renders it (tests/release)."""

from __future__ import annotations

import re

import yaml
from conftest import ROOT

CHART = ROOT / "deploy/helm/tandem"
VERSION = re.search(r' version = "(.*)"', (ROOT / "src/options/version.hpp").read_text())[1]


def test_every_version_is_the_programs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    texts = [(ROOT / name).read_text() for name in ("deploy/kubernetes/tandem.yaml", "docs/install.md")]
    assert {found for text in texts for found in re.findall(r"tandem:(\d+\.[\w.]+)", text)} == {VERSION}
    kustomization = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())
    assert kustomization["images"][0]["newTag"] == VERSION


def test_its_alert_rules_are_kustomizes() -> None:
    rules = CHART / "files/prometheusrule.yaml"
    assert rules.read_text() == (ROOT / "deploy/kubernetes/prometheusrule.yaml").read_text()


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for name, value in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        assert f".Values.{name}" in templates or f'"{name}"' in templates, name
        for key in value if isinstance(value, dict) and name not in ("resources", "nodeSelector", "affinity") else ():
            assert f".Values.{name}.{key}" in templates, f"{name}.{key}"
