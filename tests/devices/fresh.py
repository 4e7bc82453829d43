"""Runs code in a process where JAX has not started."""

import os
import pathlib
import subprocess
import sys
import textwrap

import mirrax.devices

SOURCE = pathlib.Path(mirrax.devices.__file__).parents[2]
# What this process, or who started it, has settled for its own JAX.
OWN_VARIABLES = {"PJRT_NPROC", "NPROC", "XLA_FLAGS", "JAX_NUM_CPU_DEVICES"}

SUM_200_TIMES = """
import jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.array(jax.devices("cpu")), ("replica",))

@jax.jit
@jax.shard_map(mesh=mesh, in_specs=P("replica"), out_specs=P("replica"))
def step(x):
    return x / 2 + jax.lax.psum(jax.numpy.sin(x @ x.T) @ x, "replica")

x = np.ones((mesh.size * 32, 32), np.float32)
for _ in range(200):
    x = step(x)
x.block_until_ready()
print(mesh.size, "devices")
"""


def run_fresh(*code, expected_code=0, timeout=600, **environment):
    """Returns what the pieces of code print; fails if they end otherwise."""
    inherited = {k: v for k, v in os.environ.items() if k not in OWN_VARIABLES}
    program = "\n".join(textwrap.dedent(piece) for piece in code)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **inherited,
            "PYTHONPATH": str(SOURCE),
            "JAX_PLATFORMS": "cpu",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == expected_code, done.stderr
    return done.stdout.strip()
