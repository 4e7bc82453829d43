"""Logical devices: made in time, found by name, or refused with the reason."""

import jax
import pytest

from mirrax.devices.logical_devices import (
    default_devices,
    device_kind,
    ensure_cpu_devices,
    local_devices,
    name_of,
    resolve,
    set_cpu_devices,
)
from tests.devices.fresh import SUM_200_TIMES, run_fresh

RESOLVE_TWO = """
from mirrax.devices import resolve
print(resolve(["CPU:0", "CPU:1"]))
"""
COUNT = """
import jax
print(len(jax.devices()))
"""


def test_resolve_makes_the_devices_of_an_untouched_process():
    printed = run_fresh(RESOLVE_TWO, SUM_200_TIMES).splitlines()
    assert printed == ["(CpuDevice(id=0), CpuDevice(id=1))", "2 devices"]


def test_default_devices_have_their_threads():
    code = """
    import mirrax, jax
    jax.config.update("jax_num_cpu_devices", 4)
    from mirrax.devices import default_devices
    default_devices()
    """
    assert run_fresh(code, SUM_200_TIMES) == "4 devices"


def test_resolve_says_what_to_do_when_jax_has_started():
    code = """
    import jax
    jax.devices()
    from mirrax.devices import resolve
    try:
        resolve(["CPU:0", "CPU:1"])
    except RuntimeError as error:
        print(error)
    """
    message = run_fresh(code)
    assert "Received: 2 CPU devices wanted, 1 made." in message
    assert "Create the strategy before the first JAX operation, or call " in message
    assert "mirrax.config.set_logical_devices('CPU', 2) first." in message


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XLA_FLAGS": "--xla_force_host_platform_device_count=3"}, "3"),
        ({"JAX_NUM_CPU_DEVICES": "1"}, "2"),
    ],
    ids=["more", "fewer"],
)
def test_resolve_keeps_what_the_user_asked_for(environment, expected):
    assert run_fresh(RESOLVE_TWO, COUNT, **environment).splitlines()[1] == expected


def test_resolve_finds_devices_in_the_order_of_the_names():
    cpus = jax.devices("cpu")
    assert resolve(["/cpu:2", "device:CPU:0"]) == (cpus[2], cpus[0])


def test_resolve_refuses_devices_of_another_process():
    with pytest.raises(ValueError, match=r"belong to this process.*Use 'CPU:0' for"):
        resolve(["/job:worker/task:1/cpu:0"])


def test_resolve_names_what_exists_when_a_device_is_unknown():
    with pytest.raises(ValueError, match=r"Received: 'GPU:0'. Use one of CPU:0, CPU:1"):
        resolve(["GPU:0"])
    with pytest.raises(ValueError, match="To use a TPU, install JAX with support"):
        resolve(["TPU:0"])


@pytest.mark.parametrize("count", [0, -1, 1025])
@pytest.mark.parametrize("function", [set_cpu_devices, ensure_cpu_devices])
def test_number_of_devices_must_make_sense(function, count):
    with pytest.raises(ValueError, match=f"from 1 to 1024. Received: {count}"):
        function(count)


def test_ensure_accepts_fewer_devices_than_there_are():
    ensure_cpu_devices(1)


def test_local_devices_of_an_absent_kind_are_none():
    assert local_devices("GPU") == ()


def test_default_devices_are_all_cpus_without_accelerators():
    assert default_devices() == tuple(jax.devices("cpu"))


def test_name_of_gives_the_position_among_its_kind():
    name = name_of(jax.devices("cpu")[2])
    assert name == "/job:localhost/replica:0/task:0/device:CPU:2"


def test_name_of_takes_the_name_of_the_process():
    task = "/job:worker/replica:0/task:1"
    assert name_of(jax.devices("cpu")[0], task) == f"{task}/device:CPU:0"


def test_kind_of_a_cpu_device():
    assert device_kind(jax.devices("cpu")[0]) == "CPU"


def test_platform_that_is_not_there_is_named():
    text = run_fresh(
        """
        import mirrax
        try:
            mirrax.MirroredStrategy()
        except RuntimeError as error:
            print(error)
        """,
        JAX_PLATFORMS="cuda",
    )
    assert "Received: JAX_PLATFORMS='cuda'" in text
    assert "'cpu'" in text
