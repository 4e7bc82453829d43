"""What the user asked JAX for, as JAX itself understands it."""

import pytest

from mirrax.devices.cpu_threads import count_requested
from tests.devices.fresh import run_fresh

FLAG = "--xla_force_host_platform_device_count"
COMPARE = """
import jax
from mirrax.devices.cpu_threads import requested_cpu_devices
print(requested_cpu_devices(), len(jax.devices()))
"""


@pytest.mark.parametrize(
    ("num_cpu_devices", "xla_flags", "expected"),
    [
        (-1, "", 1),
        (3, "", 3),
        (-1, f"{FLAG}=8", 8),
        (-1, f"{FLAG}=8 --xla_other=1 {FLAG}=4", 4),
        (-1, f"{FLAG}='8'", 8),
        (2, f"{FLAG}=8", 2),
        (-1, f"{FLAG}=0", 1),
    ],
    ids=["unset", "config", "flag", "last_flag", "quoted", "both", "zero"],
)
def test_count_requested_follows_jax(num_cpu_devices, xla_flags, expected):
    assert count_requested(num_cpu_devices, xla_flags) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XLA_FLAGS": f"{FLAG}=3 {FLAG}='2'"}, "2 2"),
        ({"XLA_FLAGS": f"{FLAG}=3", "JAX_NUM_CPU_DEVICES": "2"}, "2 2"),
    ],
    ids=["last_flag_quoted", "both"],
)
def test_jax_makes_as_many_devices_as_counted(environment, expected):
    assert run_fresh(COMPARE, **environment) == expected


def test_flags_are_read_from_a_file_as_jax_does(tmp_path):
    path = tmp_path / "flags"
    path.write_text(f"{FLAG}=3\n")
    assert run_fresh(COMPARE, XLA_FLAGS=str(path)) == "3 3"
