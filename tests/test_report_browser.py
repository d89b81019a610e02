"""The page in a real browser: no errors, no requests, both color schemes, phones and paper."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fake_runs import NAMES, fake_images, fake_runs
from tammes.report import write_html

pytestmark = pytest.mark.slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--enable-logging=stderr",
)  # fmt: skip
NOBODY = "not an origin"
REQUEST = (
    '<!doctype html><link rel=stylesheet href="http://127.0.0.1:9/x.css"><script>oops()</script>'
)


@dataclass(frozen=True)
class Visit:
    """What the browser had to say about a page."""

    page: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


Browse = Callable[..., Visit]


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browse:
    """Open pages in Chromium, each time with a new profile."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is installed")

    def visit(path: Path, *flags: str) -> Visit:
        profile = tmp_path_factory.mktemp("profile")
        log = profile / "net.json"
        command = [
            program, *FLAGS, f"--user-data-dir={profile}", f"--log-net-log={log}", *flags, f"file://{path}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        console = tuple(line for line in done.stderr.splitlines() if ":CONSOLE:" in line)
        return Visit(done.stdout, console, tuple(page_requests(log.read_text())))

    return visit


def page_requests(log: str) -> list[str]:
    """List what a page asked for; the browser's own requests have no initiator."""
    asked = [event.get("params", {}) for event in json.loads(log)["events"]]
    urls = [p["url"] for p in asked if "url" in p and p.get("initiator", NOBODY) != NOBODY]
    return [url for url in urls if not url.startswith(("file:", "data:"))]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every section, long names among its classes."""
    folder = tmp_path_factory.mktemp("report")
    names = (*NAMES[:7], "a class whose name is " + "very " * 12 + "long", "x" * 120)
    runs = fake_runs(
        folder / "runs", 60, names, ("zero-shot", "tpt", "a-tpt"), skipped={"a/" + "y" * 90: "bad"}
    )
    fake_images(runs)
    return write_html(runs, folder / "report.html", "tammes report runs --html " + "z" * 200, 50)


def test_the_browser_sees_errors_and_requests_where_there_are_some(browse, tmp_path):
    """Otherwise the next test proves nothing."""
    (tmp_path / "bad.html").write_text(REQUEST)
    visit = browse(tmp_path / "bad.html", "--dump-dom")
    assert any("oops" in line for line in visit.console)
    assert visit.requests == ("http://127.0.0.1:9/x.css",)


def test_the_page_loads_nothing_and_logs_nothing(browse, path):
    visit = browse(path, "--dump-dom")
    assert "The most confident mistakes" in visit.page
    assert visit.console == ()
    assert visit.requests == ()


MEASURE = """
<!doctype html><body><iframe width="{width}" height="900" srcdoc="{page}"></iframe><p id="said"></p>
<script>
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const root = frame.contentDocument.documentElement;
  const wide = [...root.querySelectorAll("body *")].filter(
    (e) => !e.closest(".scroll, svg") && e.getBoundingClientRect().right > {width} + 1);
  const small = [...root.querySelectorAll("figure svg text")].filter(
    (e) => e.getBoundingClientRect().height < 6);
  document.querySelector("#said").textContent = JSON.stringify({{
    width: root.scrollWidth, wide: wide.map((e) => e.outerHTML.slice(0, 80)), small: small.length,
    tall: root.scrollHeight,
    paper: getComputedStyle(frame.contentDocument.body).backgroundColor,
    inks: [...root.querySelectorAll("figure svg text")].map((e) => getComputedStyle(e).fill) }});
}};
</script>
"""


@pytest.fixture
def measure(browse: Browse, path: Path, tmp_path: Path) -> Callable[..., dict]:
    """Lay the page out in so many pixels, and say what came of it."""

    def measured(width: int, *flags: str) -> dict:
        frame = tmp_path / "frame.html"
        frame.write_text(MEASURE.format(width=width, page=html.escape(path.read_text())))
        page = browse(frame, "--window-size=1600,1000", "--dump-dom", *flags).page
        return json.loads(html.unescape(page.split('<p id="said">')[1].split("</p>")[0]))

    return measured


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_the_page_never_scrolls_sideways(measure, width):
    """Wide tables scroll by themselves; the letters in figures stay legible."""
    said = measure(width)
    assert said["width"] <= width
    assert said["wide"] == []
    assert said["small"] == 0
    assert said["tall"] > 2000


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_page_and_figures_follow_the_color_scheme(measure, browse, path, tmp_path, scheme):
    dark = scheme == "dark"
    flag = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    said = measure(800, flag)
    paper, *inks = (np.mean(json.loads(f"[{c[4:-1]}]")) for c in (said["paper"], *said["inks"]))
    assert (paper < 40) if dark else (paper > 240)
    assert len(inks) > 50
    assert all(abs(ink - paper) > 180 for ink in inks)
    shot = tmp_path / "shot.png"
    browse(path, flag, "--window-size=1280,900", f"--screenshot={shot}")
    assert np.median(np.asarray(Image.open(shot).convert("L"))) == pytest.approx(paper, abs=3)


def test_the_page_prints(browse, path, tmp_path):
    paper = tmp_path / "report.pdf"
    browse(path, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= content.count(b"/Type /Page\n") <= 12
