"""The demo's page shows what its runs did."""

import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree

import pytest

DEMO = pathlib.Path(__file__).parents[2] / "demo"
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Runs a copy of the demo; returns the path of its report."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    names = shutil.ignore_patterns("output", "report.html", "__pycache__")
    shutil.copytree(DEMO, folder, ignore=names)
    command = [sys.executable, "-u", folder / "demo.py", "--epochs", "2"]
    command += ["--picture", folder / "picture.svg"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "report.html"


def test_a_slow_step_before_the_kill_is_no_recovery(monkeypatch):
    monkeypatch.syspath_prepend(DEMO)
    report = importlib.import_module("report")
    moments = [(10, 0.0), (10, 9.0), (10, 10.1), (20, 12.5)]
    steps = [
        {"step": step, "loss": 0.0, "process": process, "time": seconds}
        for step, (process, seconds) in enumerate(moments)
    ]
    run = report.Run("killed", steps, [], [], [], 1.0, {}, killed=10.0)
    assert run.seconds_to_resume == 2.5


@pytest.mark.slow
def test_page_shows_the_numbers_of_the_runs(page):
    text = page.read_text()
    folders = sorted((page.parent / "output").iterdir())
    assert len(folders) == 3
    for folder in folders:
        facts = json.loads((folder / "facts.json").read_text())
        steps = [
            json.loads(line)
            for line in (folder / "steps.jsonl").read_text().splitlines()
        ]
        assert f"{facts['accuracy']:.1%}" in text
        assert f"{steps[-1]['loss']:.6f}" in text
        assert facts["devices"][-1] in text
        assert f"{facts['times']['compute'] * 1e3:.2f}" in text
    assert re.search(r"repeated <b>\d+</b> steps", text)


@pytest.mark.slow
def test_picture_shows_the_charts_of_the_page(page):
    root = ElementTree.parse(page.with_name("picture.svg")).getroot()
    shown = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"1 replica", "2 replicas", "2 workers, one killed", "SIGKILL"} <= shown


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit(page):
    text = page.read_text()
    row = re.search(
        r"<td class='name'>2 workers, one killed</td>(.*?)</tr>", text
    ).group(1)
    assert row.endswith("<td class='number'>0</td>")


@pytest.mark.slow
def test_page_loads_nothing_from_elsewhere(page):
    text = page.read_text()
    assert "<script" not in text
    assert not re.search(r"(src|href)=", text)
    assert "width=device-width" in text


# A window of Chromium has at least 500 pixels; a frame can be as narrow as a phone.
PHONE = """<!doctype html><iframe width="390" height="844"></iframe>
<script>
  const frame = document.querySelector("iframe");
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    const widths = [root.scrollWidth, frame.contentWindow.innerWidth];
    document.body.textContent = widths + "\\n" + root.innerText;
  };
  frame.srcdoc = CONTENT;
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_page_fits_a_phone_and_shows_the_numbers(page, tmp_path):
    phone = tmp_path / "phone.html"
    # JSON is JavaScript, but for the end of a script.
    content = json.dumps(page.read_text()).replace("</", "<\\/")
    phone.write_text(PHONE.replace("CONTENT", content))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-sync"]
    flags += ["--no-first-run", "--disable-background-networking"]
    flags += [f"--user-data-dir={tmp_path}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [BROWSER, *flags, f"file://{phone}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    width, available, *text = re.findall(r"[^\s,<>]+", done.stdout.split("<body>")[1])
    assert int(width) <= int(available) <= 390
    for folder in (page.parent / "output").iterdir():
        facts = json.loads((folder / "facts.json").read_text())
        assert f"{facts['accuracy']:.1%}" in text
        assert f"{facts['times']['compute'] * 1e3:.2f}" in text
