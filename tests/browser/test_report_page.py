"""The report of `tandem bench report` in a headless Chromium: it says first what it comes to, shows eight
pictures beside those of papers, fits a telephone, is light and dark, loads nothing and logs nothing."""

from __future__ import annotations

import json
import subprocess

import pytest
from conftest import ROOT, tandem_binary
from selenium import webdriver

from browser.look import count_of, text_of

DOCUMENTS = ROOT / "tests/bench/documents"


@pytest.fixture(scope="module")
def report_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    command = [
        str(tandem_binary()),
        "bench",
        "report",
        "--out",
        str(folder),
        *map(str, sorted(DOCUMENTS.glob("*.json"))),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=240)
    return (folder / "index.html").as_uri()


def check_nothing_went_wrong(browser: webdriver.Chrome, url: str) -> None:
    assert browser.get_log("browser") == [], "the report must log nothing, errors of its content policy included"
    requested = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requested.add(message["params"]["request"]["url"])
    assert {u for u in requested if not u.startswith(("data:", "chrome:"))} == {url}


def test_says_what_it_comes_to(report_url: str, browser: webdriver.Chrome) -> None:
    browser.get(report_url)
    headline = text_of(browser, "#headline")
    assert "memcached\N{RIGHT SINGLE QUOTATION MARK}s throughput, p99 " in headline
    top = browser.execute_script("return document.getElementById('headline').getBoundingClientRect()")
    assert top["top"] < 120, "the headline is what is seen first"
    size = browser.execute_script(
        "return parseFloat(getComputedStyle(document.getElementById('headline')).fontSize) /"
        " Math.max(...[...document.querySelectorAll('h2, h3')].map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert size > 1.1
    paper, other = "figure[id^=paper-] .plot svg", "figure:not([id^=paper-]) .plot svg"
    assert count_of(browser, other) == 8, "there are more to choose from"
    assert count_of(browser, paper) == 2, "figures of papers are always drawn"
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    darkness = sum(int(part) for part in background.removeprefix("rgb(").removesuffix(")").split(","))
    assert (darkness < 150) == (browser.scheme == "dark")
    # Texts of the pictures are the page's colour: readable on both grounds.
    ink = browser.execute_script("return getComputedStyle(document.querySelector('.plot svg text')).fill")
    brightness = sum(int(part) for part in ink.removeprefix("rgb(").removesuffix(")").split(","))
    assert (brightness > 380) == (browser.scheme == "dark"), ink
    check_nothing_went_wrong(browser, report_url)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_pictures_that_are_not_drawn_keep_their_numbers(report_url: str, browser: webdriver.Chrome) -> None:
    browser.get(report_url)
    figure = "figure:not(:has(.plot svg)):has(details)"
    assert count_of(browser, figure) >= 5
    assert count_of(browser, f"{figure} > details[open]") == 0, "folded"
    browser.execute_script("document.querySelector(arguments[0] + ' summary').click()", figure)
    after = browser.execute_script(
        "return document.querySelector(arguments[0] + ' table').getBoundingClientRect().height", figure
    )
    assert after > 20


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_fits_a_telephone(report_url: str, browser: webdriver.Chrome) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    browser.get(report_url)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    check_nothing_went_wrong(browser, report_url)
