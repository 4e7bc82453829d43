"""The code in README.md and docs/ runs as it stands."""

import pathlib
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from mirrax.launch.cli import SUBCOMMANDS
from mirrax.launch.launch_command import _parse
from tests.pages import PAGES, ROOT, blocks, read, run, uses_layer

# tests/test_exact_steps.py runs this one on several numbers of replicas.
ELSEWHERE = {"docs/jax_models.md"}
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *PAGES]
README = """
from tests.pages import run
run("README.md", is_one_program=False)
"""


def with_marks(page):
    """Pages that start workers are slow."""
    is_slow = any("launch.run(" in block for block in blocks(page))
    return pytest.param(page, marks=pytest.mark.slow if is_slow else ())


def test_readme_runs_in_a_fresh_interpreter():
    command = [sys.executable, "-W", "error", "-c", README]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page",
    [
        with_marks(page)
        for page in PAGES
        if blocks(page) and not uses_layer(page) and page not in ELSEWHERE
    ],
)
def test_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


def commands(page):
    """Returns the lines of shell code in a page, those continued joined to one."""
    code = "\n".join([*blocks(page, "sh"), *re.findall(r"^    .*$", read(page), re.M)])
    return [line.strip() for line in code.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("page", DOCUMENTS)
def test_commands_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in commands(page):
        words = shlex.split(line, comments=True) if "<<" not in line else []
        match words:
            case ["make", target, *_]:
                assert f"\n{target}:" in makefile, line
            case ["mirrax", "launch", *arguments]:
                _parse(arguments)
            case ["mirrax", subcommand, *_] if subcommand.isalpha():
                assert subcommand in {*SUBCOMMANDS, "tf", "migrate"}, line
            case ["python", path, *_] if path.startswith(("tools/", "examples/")):
                assert (ROOT / path).is_file(), line
            case ["pip", "install", *wanted]:
                named = re.findall(r"\.\[([\w,]+)\]", " ".join(wanted))
                extras = {each for names in named for each in names.split(",")}
                assert extras <= set(project["optional-dependencies"]), line


def test_page_says_what_its_code_prints(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    with pytest.raises(AssertionError, match=r"expected\n3\n\nbut printed\n2"):
        run(pathlib.Path(page))
