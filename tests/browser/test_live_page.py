"""The live page in a headless Chromium: it shows live numbers, loads nothing from elsewhere and logs no error."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.server import HOST, Server, free_port
from harness.wire import Stream
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

WAIT_S = 60
# Set to a file to have the picture of docs/monitoring.md taken anew, after so many seconds of traffic.
PICTURE = os.environ.get("TANDEM_PICTURE", "")
PICTURE_AFTER_S = float(os.environ.get("TANDEM_PICTURE_AFTER_S", "100"))


class Load(threading.Thread):
    """A client that asks for a few keys much more often than for others, until it is stopped."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            chance = random.Random(1)
            with Stream(self.server.connect()) as stream:
                while not self.stopping.is_set():
                    stream.exchange(b"".join(self.command(chance) for _ in range(48)))
                    time.sleep(chance.random() * 0.002)
        except BaseException as error:
            self.error = error

    @staticmethod
    def command(chance: random.Random) -> bytes:
        key = b"user:%d" % min(int(chance.paretovariate(0.6)), 2_000_000)
        kind = chance.random()
        if kind < 0.2:
            value = b"x" * (60 + hash(key) % 1800)
            return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)
        if kind < 0.24:
            return b"incr visits:%d 1\r\n" % chance.randrange(50)
        return b"mg %s v\r\n" % key if kind < 0.3 else b"get %s\r\n" % key


@pytest.fixture
def page_url(tandem: Callable[..., Server]) -> Iterator[str]:
    port = free_port()
    server = tandem("-t", "2", "-o", f"metrics={HOST}:{port}", memory_mib=16)
    load = Load(server)
    load.start()
    yield f"http://{HOST}:{port}/"
    load.stopping.set()
    load.join()
    assert load.error is None


@pytest.fixture(params=["light", "dark"])
def browser(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[webdriver.Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.fail("no chromium or chromedriver: run `make test-browser`, which installs them", pytrace=False)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",  # for root
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        f"--user-data-dir={tmp_path}",
        "--window-size=1360,1640",
        "--hide-scrollbars",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as chrome:
        chrome.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": request.param}]}
        )
        chrome.scheme = request.param
        yield chrome


def text_of(browser: webdriver.Chrome, selector: str) -> str:
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def count_of(browser: webdriver.Chrome, selector: str) -> int:
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)


def check_nothing_went_wrong(browser: webdriver.Chrome, page_url: str) -> None:
    assert browser.get_log("browser") == [], "the page must log nothing, errors of its content policy included"
    requested = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            requested.add(message["params"]["request"]["url"])
    # chrome: is the browser's own first tab.
    foreign = {url for url in requested if not url.startswith((page_url, "data:", "chrome:"))}
    assert foreign == set()
    assert {page_url, page_url + "style.css", page_url + "script.js"} <= requested


@pytest.mark.timeout(600)
def test_shows_live_numbers(page_url: str, browser: webdriver.Chrome) -> None:
    if PICTURE and browser.scheme == "light":
        time.sleep(PICTURE_AFTER_S)  # the server remembers what went on while no page was open
    browser.get(page_url)
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: text_of(b, "#state") == "live")
    wait.until(lambda b: count_of(b, "#throughput path.line") == 3)
    wait.until(lambda b: count_of(b, "#hot tbody tr") >= 5)
    wait.until(lambda b: {"get", "set", "mg", "incr"} <= set(text_of(b, "#commands tbody").split()))

    tasks = browser.execute_script(
        "return [...document.querySelectorAll('#pipeline li')].map(e => [e.dataset.task,"
        " e.querySelector('.processor').innerText, e.querySelector('.time').innerText])"
    )
    assert [task for task, _, _ in tasks] == ["RV", "PP", "MM", "Search", "Insert", "Delete", "KC", "RD", "WR", "SD"]
    assert all(processor == "CPU" and time_text[0].isdigit() for _, processor, time_text in tasks)
    assert "user:1" in browser.execute_script("return document.querySelector('#hot td.key').title").replace("%3A", ":")
    assert count_of(browser, "#classes tbody tr") >= 5
    assert count_of(browser, "#big td.key") == 10
    assert count_of(browser, "#tiles .tile") == 6

    # It lives: what it says goes on changing.
    before = text_of(browser, "#about")
    wait.until(lambda b: text_of(b, "#about") != before)
    background = browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    darkness = sum(int(part) for part in background.removeprefix("rgb(").removesuffix(")").split(","))
    assert (darkness < 150) == (browser.scheme == "dark")
    check_nothing_went_wrong(browser, page_url)
    if PICTURE and browser.scheme == "light":
        browser.save_screenshot(PICTURE)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_fits_a_telephone(page_url: str, browser: webdriver.Chrome) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    browser.get(page_url)
    WebDriverWait(browser, WAIT_S).until(lambda b: count_of(b, "#hot td.key") >= 1)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    check_nothing_went_wrong(browser, page_url)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_says_when_the_server_is_gone(tandem: Callable[..., Server], browser: webdriver.Chrome) -> None:
    port = free_port()
    server = tandem("-t", "1", "-o", f"metrics={HOST}:{port}")
    browser.get(f"http://{HOST}:{port}/")
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: text_of(b, "#state") == "live")
    assert server.stop() == 0
    wait.until(lambda b: text_of(b, "#state") == "no answer from the server")
