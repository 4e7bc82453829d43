import pytest

from tests.devices.fresh import run_fresh

# Buffers of one step, each larger than what glibc takes from its heap by default.
COUNT_FAULTS = """
import resource
import numpy as np

def step():
    buffers = [np.ones(200_000, np.float32) for _ in range(20)]

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""

KEEP = """
from mirrax.devices import cpu_memory

cpu_memory.keep_freed_memory()
"""


def test_keep_freed_memory_makes_later_steps_take_no_pages():
    assert int(run_fresh(KEEP, COUNT_FAULTS)) < 20


@pytest.mark.parametrize(
    "environment",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.perturb=0"},
    ],
    ids=["variable", "tunable"],
)
def test_keep_freed_memory_leaves_what_the_user_configured(environment):
    assert int(run_fresh(KEEP, COUNT_FAULTS, **environment)) > 1000
