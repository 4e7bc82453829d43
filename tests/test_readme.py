"""The examples of the README run as they stand, each in a fresh interpreter."""

import pathlib
import re
import subprocess
import sys

import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
EXPECTED = {
    "functional": r"^\[0\.8326\d+ 1\.6755\d+\s+2\.7600\d+\s*\] 0\.2318",
    "variables": r"rows seen: 21",
    "keras": r"^\d+\.\d+",
}
# The last example is about `mirrax.tf`, and is tested with that layer.
PROGRAMS = EXAMPLES[: len(EXPECTED)]


@pytest.mark.parametrize(
    ("program", "expected"),
    list(zip(PROGRAMS, EXPECTED.values(), strict=True)),
    ids=list(EXPECTED),
)
def test_readme_example_runs_as_it_stands(program, expected):
    require_output(program, expected)


def require_output(program, expected):
    """Runs a program in a fresh interpreter, and looks for what it prints."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert re.search(expected, finished.stdout), finished.stdout
