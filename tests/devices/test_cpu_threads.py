"""The CPU backend has the threads that collectives need, or we say so."""

import pytest

from mirrax.devices.cpu_threads import (
    configured_threads,
    count_requested,
    required_threads,
)
from tests.devices.fresh import SUM_200_TIMES, run_fresh

PRINT_VARIABLE = """
import os
print(os.environ.get("PJRT_NPROC"))
"""
FLAG = "--xla_force_host_platform_device_count"
COMPARE = """
import jax
from mirrax.devices.cpu_threads import requested_cpu_devices
print(requested_cpu_devices(), len(jax.devices()))
"""
# A machine with one core shows what is done for want of threads.
ONE_CORE = """
import os
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
"""
CHECK_TWO = """
from mirrax.devices import cpu_threads
try:
    cpu_threads.check(2)
    print("passed")
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("num_devices", "cores", "expected"),
    [(1, 8, 8), (2, 2, 4), (8, 2, 16), (2, 64, 64)],
)
def test_required_threads_are_two_per_device_and_one_per_core(
    num_devices, cores, expected
):
    assert required_threads(num_devices, cores) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 2),
        ({"PJRT_NPROC": "9"}, 9),
        ({"PJRT_NPROC": " +9 "}, 9),
        ({"PJRT_NPROC": "-3"}, 0),
        ({"PJRT_NPROC": "nine", "NPROC": "7"}, 7),
        ({"PJRT_NPROC": "4.0"}, 2),
        ({"PJRT_NPROC": "", "NPROC": "7"}, 7),
    ],
    ids=["unset", "set", "signed", "negative", "word", "fraction", "empty"],
)
def test_configured_threads_are_read_as_xla_reads_them(environment, expected):
    assert configured_threads(environment, cores=2) == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"JAX_NUM_CPU_DEVICES": "3", "PJRT_NPROC": "50"}, "50"),
        ({"JAX_NUM_CPU_DEVICES": "3", "NPROC": "2"}, "6"),
    ],
    ids=["enough", "too_few"],
)
def test_import_reserves_what_the_environment_asks_for(environment, expected):
    assert (
        run_fresh(ONE_CORE, "import mirrax", PRINT_VARIABLE, **environment) == expected
    )


def test_reserve_only_adds_threads_and_is_silent():
    code = """
    import logging, sys
    logging.basicConfig(stream=sys.stdout)
    from mirrax.devices.cpu_threads import reserve
    reserve(2)
    reserve(4)
    reserve(2)
    """
    assert run_fresh(ONE_CORE, code, PRINT_VARIABLE) == "8"


@pytest.mark.parametrize(
    ("in_job", "expected"), [(True, "2"), (False, "None")], ids=["job", "alone"]
)
def test_one_device_needs_two_threads_only_where_it_waits_for_workers(in_job, expected):
    code = f"""
    from mirrax.devices.cpu_threads import reserve
    reserve(1, in_job={in_job})
    """
    assert run_fresh(ONE_CORE, code, PRINT_VARIABLE) == expected


def test_reserve_leaves_a_running_backend_alone():
    code = """
    import jax
    jax.devices()
    from mirrax.devices.cpu_threads import reserve
    reserve(8)
    """
    assert run_fresh(code, PRINT_VARIABLE) == "None"


@pytest.mark.parametrize(
    "code",
    [
        "import mirrax, jax; jax.devices(); os.environ['PJRT_NPROC'] = '4'",
        "import jax; jax.devices(); os.environ['PJRT_NPROC'] = '4'; import mirrax",
    ],
    ids=["started_after_import", "started_before_import"],
)
def test_check_refuses_a_backend_with_too_few_threads(code):
    message = run_fresh(ONE_CORE, code, CHECK_TWO)
    assert message.startswith("A collective over N CPU devices needs 2*N threads")
    assert "Received: 2 devices, 1 threads." in message
    assert "mirrax.config.set_logical_devices('CPU', 2), before the first" in message
    assert "PJRT_NPROC=4" in message


def test_check_passes_a_backend_that_had_enough_threads_before_import():
    code = "os.environ['PJRT_NPROC'] = '4'; import jax; jax.devices(); import mirrax"
    assert run_fresh(ONE_CORE, code, CHECK_TWO) == "passed"


def test_check_passes_before_the_backend_starts_and_with_enough_threads():
    code = "cpu_threads.reserve(2); import jax; jax.devices()"
    printed = run_fresh(ONE_CORE, CHECK_TWO, code, CHECK_TWO)
    assert printed.splitlines() == ["passed", "passed"]


def test_all_reduce_never_sticks_when_flags_came_before_import():
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    printed = run_fresh(
        ONE_CORE, "import mirrax", PRINT_VARIABLE, SUM_200_TIMES, **environment
    )
    assert printed.splitlines() == ["16", "8 devices"]


def test_all_reduce_never_sticks_when_config_came_before_import():
    code = """
    import jax
    jax.config.update("jax_num_cpu_devices", 4)
    import mirrax
    """
    assert run_fresh(code, SUM_200_TIMES) == "4 devices"


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
