"""What type checkers and editors see of a program that uses Mirrax."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys

import mirrax

ROOT = pathlib.Path(__file__).parents[2]

PROGRAM = """
import mirrax

@mirrax.function
def step(x: int, name: str = "a") -> float:
    return 1.0

@mirrax.function(donate_argnums=0)
def update(state: list[int]) -> str:
    return ""

class Model:
    @mirrax.function
    def call(self, x: int) -> bytes:
        return b""

strategy = mirrax.OneDeviceStrategy("CPU:0")
reveal_type(step(1))
reveal_type(update([1]))
reveal_type(Model().call(2))
reveal_type(strategy.run(step, args=(1,)))
step("text")
"""


def test_functions_keep_their_types(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    # With the settings of `make check`, whose cache makes this quick.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(path)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    shown = [line.split(": ", 2)[2] for line in done.stdout.splitlines()[:-1]]
    kinds = ("float", "str", "bytes", "float")
    assert shown[:4] == [f'Revealed type is "{kind}"' for kind in kinds], done.stdout
    assert 'incompatible type "str"; expected "int"' in shown[4]


def test_version_is_that_of_the_package():
    assert mirrax.__version__ == importlib.metadata.version("mirrax")
