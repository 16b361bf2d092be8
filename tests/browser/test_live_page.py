"""The live page in a headless Chromium: it shows live numbers, loads nothing from elsewhere and logs no error."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from harness.server import HOST, Server, free_port
from harness.wire import Stream
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from browser.look import count_of, text_of

WAIT_S = 60
# Set to a file to have the picture of docs/monitoring.md taken anew, after so many seconds of traffic.
PICTURE = os.environ.get("TANDEM_PICTURE", "")
PICTURE_AFTER_S = float(os.environ.get("TANDEM_PICTURE_AFTER_S", "100"))


class Load(threading.Thread):
    """A client that asks for a few keys much more often than for the rest, until it is stopped."""

    def __init__(self, server: Server, burst: int = 48) -> None:
        super().__init__()
        self.server = server
        self.burst = burst  # commands at a time
        self.stopping = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            chance = random.Random(1)
            with Stream(self.server.connect()) as stream:
                while not self.stopping.is_set():
                    stream.exchange(b"".join(self.command(chance) for _ in range(self.burst)))
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
        if kind < 0.25:
            return b"delete %s\r\n" % key
        return b"mg %s v\r\n" % key if kind < 0.3 else b"get %s\r\n" % key


@dataclass(frozen=True)
class Monitored:
    server: Server
    url: str

    def status(self) -> dict:
        with urllib.request.urlopen(self.url + "api/status", timeout=20) as reply:
            return json.load(reply)


@pytest.fixture
def monitored(tandem: Callable[..., Server]) -> Iterator[Monitored]:
    port = free_port()
    server = tandem("-t", "2", "-o", f"metrics={HOST}:{port}", memory_mib=16)
    load = Load(server)
    load.start()
    yield Monitored(server, f"http://{HOST}:{port}/")
    load.stopping.set()
    load.join()
    assert load.error is None


@pytest.fixture
def page_url(monitored: Monitored) -> str:
    return monitored.url


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
    assert {page_url} | {page_url + name for name in ("style.css", "script.js", "charts.js")} <= requested


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

    def tasks(browser: webdriver.Chrome) -> list[list[str]]:
        return browser.execute_script(
            "return [...document.querySelectorAll('#pipeline li')].map(e => [e.dataset.task,"
            " e.querySelector('.processor').innerText, e.querySelector('.time').innerText])"
        )

    order = ["RV", "PP", "MM", "Search", "Insert", "Delete", "KC", "RD", "WR", "SD"]
    assert [task for task, _, _ in tasks(browser)] == order
    # The lane times no others: memory and deletions are in Insert's, the reading of values is in WR's.
    timed = {"RV", "PP", "Search", "Insert", "KC", "WR", "SD"}
    wait.until(lambda b: all(on == "CPU" and (text[0].isdigit() or t not in timed) for t, on, text in tasks(b)))
    assert "user:1" in browser.execute_script("return document.querySelector('#hot td.key').title")
    assert count_of(browser, "#classes tbody tr") >= 5
    assert count_of(browser, "#big td.key") == 10
    assert count_of(browser, "#tiles .tile") == 6
    assert not browser.find_element(By.ID, "split-card").is_displayed(), "this server has no hot table"

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
def test_tells_hot_from_cold(tandem: Callable[..., Server], browser: webdriver.Chrome) -> None:
    port = free_port()
    server = tandem("-t", "2", "-o", f"metrics={HOST}:{port},preset=6,gpu=sim", memory_mib=16)
    load = Load(server, burst=1)  # many at a time go to the device whole
    load.start()
    try:
        browser.get(f"http://{HOST}:{port}/")
        wait = WebDriverWait(browser, WAIT_S)
        wait.until(lambda b: b.find_element(By.ID, "split-card").is_displayed())
        wait.until(lambda b: float(texts_of(b, "#split td")[1].split()[0]) > 1)
        names, shares = texts_of(browser, "#split td:nth-child(1)"), texts_of(browser, "#split td:nth-child(2)")
        assert names[0].startswith("hot: ") and names[1] == "cold"
        assert abs(sum(float(share.split()[0]) for share in shares) - 100) < 0.2
    finally:
        load.stopping.set()
        load.join()
    assert load.error is None


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_says_when_the_server_is_gone(tandem: Callable[..., Server], browser: webdriver.Chrome) -> None:
    port = free_port()
    server = tandem("-t", "1", "-o", f"metrics={HOST}:{port}")
    browser.get(f"http://{HOST}:{port}/")
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: text_of(b, "#state") == "live")
    assert server.stop() == 0
    wait.until(lambda b: text_of(b, "#state") == "no answer from the server")


def texts_of(browser: webdriver.Chrome, selector: str) -> list[str]:
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
    )


def number_of(text: str) -> float:
    """What the page's short numbers say: 12.3 k, 45."""
    value, _, unit = text.partition(" ")
    return float(value) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[unit]


def second_of_day(text: str) -> int:
    return sum(int(part) * seconds for part, seconds in zip(text.split(":"), (3600, 60, 1), strict=False))


def choose_range(browser: webdriver.Chrome, seconds: int) -> None:
    browser.find_element(By.CSS_SELECTOR, f"#range label:has([value='{seconds}'])").click()


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_a_gap_in_samples_is_a_gap_in_the_plot(monitored: Monitored, browser: webdriver.Chrome) -> None:
    browser.get(monitored.url + "#range=60")
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: len(monitored.status()["points"]) >= 5)
    monitored.server.process.send_signal(signal.SIGSTOP)
    time.sleep(7)
    monitored.server.process.send_signal(signal.SIGCONT)
    samples = len(monitored.status()["points"])
    wait.until(lambda b: len(monitored.status()["points"]) >= samples + 4)
    wait.until(lambda b: text_of(b, "#state") == "live")
    for chart in ("throughput", "latency", "hits", "evictions"):
        gap = browser.execute_script(
            """
            // The widest space between two runs of a line, and the areas that reach into its middle.
            const chart = document.getElementById(arguments[0]);
            const line = chart.querySelector("path.line").getAttribute("d");
            const xs = run => [...run.matchAll(/([\\d.]+) [\\d.]+/g)].map(m => Number(m[1]));
            const runs = line.slice(1).split("M").map(xs);
            let widest = [0, 0];
            for (let i = 1; i < runs.length; ++i) {
              if (runs[i][0] - runs[i - 1].at(-1) > widest[1] - widest[0]) widest = [runs[i - 1].at(-1), runs[i][0]];
            }
            const x = (widest[0] + widest[1]) / 2;
            let covered = 0;
            for (const area of chart.querySelectorAll("path.area")) {
              for (let y = 0; y < 190; ++y) covered += area.isPointInFill(new DOMPoint(x, y));
            }
            return [widest[1] - widest[0], chart.clientWidth, covered];
            """,
            chart,
        )
        width, whole, covered = gap
        assert width > 5 / 60 * whole * 0.8, (chart, gap)
        assert covered == 0, f"{chart}: an area goes on across the gap"
    check_nothing_went_wrong(browser, monitored.url)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_ticks_are_round(monitored: Monitored, browser: webdriver.Chrome) -> None:
    browser.get(monitored.url + "#range=60")
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: count_of(b, "#throughput path.line") == 3 and count_of(b, "#latency path.line") == 3)
    for chart in ("throughput", "evictions"):
        steps = [number_of(text) for text in texts_of(browser, f"#{chart} text.value")]
        assert len(steps) >= 3 and steps[0] == 0, steps
        step = steps[1]
        assert f"{step:e}"[0] in "125" and float(f"{step:e}".split("e")[0]) in (1, 2, 5), steps
        assert steps == pytest.approx([i * step for i in range(len(steps))]), steps
    assert texts_of(browser, "#hits text.value") == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    for text in texts_of(browser, "#latency text.value"):
        assert re.fullmatch(r"(1|2|5|10|20|50|100|200|500) (µs|ms|s)", text), text
    times = texts_of(browser, "#hits text.time")
    assert len(times) >= 3
    assert all(re.fullmatch(r"\d\d:\d\d:\d[05]", text) for text in times), times
    choose_range(browser, 3600)
    times = texts_of(browser, "#hits text.time")
    assert len(times) >= 3
    assert all(re.fullmatch(r"\d\d:\d[05]", text) for text in times), times


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_shows_the_values_under_the_pointer(monitored: Monitored, browser: webdriver.Chrome) -> None:
    browser.get(monitored.url + "#range=60")
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: len(monitored.status()["points"]) >= 12)
    chart = browser.find_element(By.ID, "throughput")
    # Some seconds before the right edge; the middle of the element is the origin.
    offset = int(chart.size["width"] / 2 - chart.size["width"] * 6 / 60)
    ActionChains(browser).move_to_element_with_offset(chart, offset, 0).perform()
    wait.until(lambda b: text_of(b, "#throughput + .tip time") != "")
    # One look: the page goes on.
    shown, legend = browser.execute_script(
        "return [[...document.querySelectorAll('#throughput + .tip :is(time, b)')].map(e => e.textContent),"
        " document.querySelector('.legend[data-for=throughput] b').textContent]"
    )
    clock, gets, stores, others = shown
    assert legend == gets, "the legend tells the same moment"
    assert count_of(browser, "#hits .pointer") == 1, "the other charts mark the moment, too"
    zone_s = browser.execute_script("return -60 * new Date().getTimezoneOffset()")
    points = monitored.status()["points"]
    ago_s = (points[-1]["time_s"] + zone_s - second_of_day(clock)) % 86400
    assert 3 <= ago_s <= 10, (clock, points[-1])  # 6, and what passed since
    near = [p for p in points if int(p["time_s"] + zone_s) % 86400 == second_of_day(clock)]
    assert any(
        number_of(gets) == pytest.approx(p["gets_per_s"], rel=0.01)
        and number_of(stores) == pytest.approx(p["stores_per_s"], rel=0.01)
        and number_of(others) == pytest.approx(p["others_per_s"], rel=0.02)
        for p in near
    ), (shown, near)

    # By keys, and away.
    ActionChains(browser).move_to_element(browser.find_element(By.TAG_NAME, "h1")).perform()
    assert not browser.find_element(By.CSS_SELECTOR, "#throughput + .tip").is_displayed()
    browser.execute_script("document.getElementById('latency').focus()")
    ActionChains(browser).send_keys("\ue012\ue012\ue012").perform()  # left
    tip = browser.find_element(By.CSS_SELECTOR, "#latency + .tip")
    assert tip.is_displayed() and "p99.9" in tip.text
    ActionChains(browser).send_keys("\ue00c").perform()  # escape
    assert not tip.is_displayed()
    check_nothing_went_wrong(browser, monitored.url)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_shows_the_range_that_was_chosen(monitored: Monitored, browser: webdriver.Chrome) -> None:
    browser.get(monitored.url)
    wait = WebDriverWait(browser, WAIT_S)
    wait.until(lambda b: len(monitored.status()["points_10s"]) >= 2)

    def drawn() -> tuple[float, int]:
        """How much of the plot's width the line takes, and of how many points it is."""
        line = browser.execute_script("return document.querySelector('#throughput path.line')?.getAttribute('d') ?? ''")
        xs = [float(x) for x in re.findall(r"([\d.]+) [\d.]+", line)]
        return (max(xs) - min(xs), len(xs)) if xs else (0.0, 0)

    widths = {}
    for seconds in (60, 300, 900, 3600):
        choose_range(browser, seconds)
        assert browser.current_url.endswith(f"#range={seconds}")
        fewest = 10 if seconds <= 300 else 2
        wait.until(lambda b, fewest=fewest: drawn()[1] >= fewest)  # the page asks once a second
        widths[seconds], points = drawn()
        assert seconds <= 300 or points <= 6, (seconds, points)
    assert widths[60] > 3 * widths[300] > 9 * widths[3600] > 0, widths
    browser.refresh()  # the address keeps it
    assert browser.execute_script("return document.querySelector('#range input:checked').value") == "3600"
    check_nothing_went_wrong(browser, monitored.url)


@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_the_class_with_most_memory_is_first(tandem: Callable[..., Server], browser: webdriver.Chrome) -> None:
    port = free_port()
    server = tandem("-t", "1", "-o", f"metrics={HOST}:{port}")
    with Stream(server.connect()) as stream:
        for size, count in ((30, 10), (3000, 1500), (20_000, 30)):
            for i in range(count):
                stream.exchange(b"set %d:%d 0 0 %d\r\n%s\r\n" % (size, i, size, b"x" * size))
    browser.get(f"http://{HOST}:{port}/")
    WebDriverWait(browser, WAIT_S).until(lambda b: count_of(b, "#classes tbody tr") >= 3)
    rows = browser.execute_script(
        "return [...document.querySelectorAll('#classes tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    memory = [float(row[1].removesuffix(" MiB")) for row in rows]
    assert memory == sorted(memory, reverse=True) and memory[0] >= 4, rows
    assert rows[0][0].endswith("KiB") and 3 <= float(rows[0][0].removesuffix(" KiB")) < 4, rows


@pytest.mark.timeout(300)
@pytest.mark.parametrize("browser", ["light"], indirect=True)
def test_a_key_that_cools_leaves_the_list(tandem: Callable[..., Server], browser: webdriver.Chrome) -> None:
    port = free_port()
    server = tandem("-t", "1", "-o", f"metrics={HOST}:{port}")
    with Stream(server.connect()) as stream:
        for _ in range(3000):
            stream.exchange(b"get cools\r\n")
        browser.get(f"http://{HOST}:{port}/")
        wait = WebDriverWait(browser, 150, poll_frequency=0.1)
        wait.until(lambda b: texts_of(b, "#hot td.key")[:1] == ["cools"])

        def cooled(b: webdriver.Chrome) -> bool:
            for _ in range(20):
                stream.exchange(b"get warm\r\n")
            keys = texts_of(b, "#hot td.key")
            return "warm" in keys and "cools" not in keys

        wait.until(cooled)
