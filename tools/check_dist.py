"""Installs what is in dist/ into a new environment for each extra, and uses it there.

    python tools/check_dist.py [extra ...]

`wheel` and `sdist` name the wheel and the source archive without an extra. Needs the
network. Prints a line for each; exits with 1 if one fails.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

DIST = pathlib.Path(__file__).resolve().parent.parent / "dist"

TRAIN = """
import mirrax
mirrax.config.set_logical_devices("CPU", 2)
strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
"""
PROGRAMS = {
    "wheel": """
ones = strategy.run(lambda: jax.numpy.ones(()))
assert strategy.reduce("SUM", ones, axis=None) == 2
""",
    "sdist": """
import mirrax.data, mirrax.launch, mirrax.summary
path = mirrax.train.Checkpoint(step=3).save("run")
assert mirrax.train.load_variable(path, "step") == 3
mirrax.train.export("exported", one=(lambda: jax.numpy.ones(()), []))
assert mirrax.train.load_exported("exported").one() == 1
""",
    "keras": """
import keras
with strategy.scope():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(jax.numpy.ones((3, 2)), jax.numpy.ones(3), verbose=0)
""",
    "flax": """
import optax
from flax import nnx
model = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
strategy.run(mirrax.function(lambda: model(jax.numpy.ones((1, 2)))))
""",
    "data": """
import array_record, pyarrow, pyarrow.parquet
pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2]}), "rows.parquet")
assert len(list(mirrax.data.ParquetDataset("rows.parquet"))) == 2
mirrax.data.parse_single_example
""",
    "tf": """
import mirrax.tf as tf
@tf.function
def halve(x):
    while x > 1.0:
        x = x / 2.0
    return x
assert halve(tf.constant(8.0)).numpy() == 1.0
""",
    "all": "import array_record, flax, keras, malt, mirrax.tf, optax",
}
"""What is run with each extra, after `TRAIN`."""


def check(extra: str, folder: pathlib.Path) -> bool:
    """Returns whether the package with this extra installs and works."""
    package = find_package("*.tar.gz" if extra == "sdist" else "*.whl")
    python = str(folder / "bin" / "python")
    wanted = str(package) if extra in {"wheel", "sdist"} else f"{package}[{extra}]"
    # Nothing of the checkout may be seen.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    environment["KERAS_BACKEND"] = "jax"
    commands = [
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "--quiet", "--no-compile", wanted],
        [python, "-c", f"import jax\n{TRAIN}\n{PROGRAMS[extra]}"],
        [python, "-m", "mirrax.launch", "--help"],
    ]
    for command in commands:
        done = subprocess.run(
            command,
            cwd=folder.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout)
            return False
    return True


def find_package(pattern: str) -> pathlib.Path:
    """Returns the one file in dist/ with such a name."""
    found = [path.name for path in DIST.glob(pattern)]
    if len(found) != 1:
        raise SystemExit(
            f"dist/ must hold one {pattern}. Received: {found}. Run `make dist` first."
        )
    return DIST / found[0]


def main() -> int:
    """Checks all extras, or those that are named."""
    failed = 0
    for extra in sys.argv[1:] or PROGRAMS:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mirrax-dist-") as folder:
            is_ok = check(extra, pathlib.Path(folder) / "environment")
        failed += not is_ok
        seconds = time.monotonic() - start
        print(f"{extra}: {'ok' if is_ok else 'FAILED'}, {seconds:.0f} s", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
