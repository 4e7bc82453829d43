"""The public face of devices, with TensorFlow's names and answers."""

import importlib.util

import jax
import numpy as np
import pytest

import mirrax
from mirrax import config
from tests.devices.fresh import SUM_200_TIMES, run_fresh

# On a machine with drivers JAX must start to count accelerators.
HAS_DRIVERS = any(map(importlib.util.find_spec, ["jax_plugins", "libtpu"]))

COUNT = """
import jax
print(len(jax.devices()))
"""


def test_logical_devices_are_those_of_jax():
    names = [device.name for device in config.list_logical_devices("CPU")]
    assert names == [f"/device:CPU:{i}" for i in range(len(jax.devices("cpu")))]


def test_list_logical_devices_lists_all_kinds_by_default():
    assert config.list_logical_devices() == config.list_logical_devices("cpu")


@pytest.mark.parametrize("kind", ["GPU", "XLA_GPU"])
def test_lists_of_an_absent_kind_are_empty(kind):
    assert config.list_logical_devices(kind) == []
    assert config.list_physical_devices(kind) == []


def test_the_cpu_is_one_physical_device():
    cpu = config.PhysicalDevice("/physical_device:CPU:0", "CPU")
    assert config.list_physical_devices() == [cpu]
    assert config.get_visible_devices("CPU") == [cpu]


@pytest.mark.parametrize(
    "platforms",
    ["cpu", pytest.param("", marks=pytest.mark.skipif(HAS_DRIVERS, reason="drivers"))],
    ids=["cpu_only", "any"],
)
def test_physical_devices_are_listed_without_starting_jax(platforms):
    code = """
    import mirrax
    from mirrax import config
    from mirrax._jax import distributed
    config.list_physical_devices()
    print(distributed.backend_is_up())
    """
    assert run_fresh(code, JAX_PLATFORMS=platforms) == "False"


def test_the_last_number_before_the_start_decides():
    code = """
    from mirrax import config
    for count in (8, 2, 4):
        config.set_logical_devices("CPU", count)
    """
    assert run_fresh(code, SUM_200_TIMES) == "4 devices"


def test_set_logical_devices_decides_over_flags():
    code = """
    from mirrax import config
    config.set_logical_devices("CPU", 2)
    """
    flags = "--xla_force_host_platform_device_count=8"
    assert run_fresh(code, COUNT, XLA_FLAGS=flags) == "2"


def test_set_logical_devices_accepts_what_is_there():
    config.set_logical_devices("CPU", len(jax.devices("cpu")))


def test_set_logical_devices_refuses_another_number_after_the_start():
    count = len(jax.devices("cpu"))
    message = (
        f"{count - 1} CPU devices wanted, {count} made. Create the strategy before"
    )
    with pytest.raises(RuntimeError, match=message):
        config.set_logical_devices("CPU", count - 1)


@pytest.mark.parametrize("kind", ["GPU", "TPU", "XPU", ""])
def test_only_the_cpu_can_be_divided(kind):
    with pytest.raises(ValueError, match=f"Only the CPU .* device_type='{kind}'"):
        config.set_logical_devices(kind, 2)


@pytest.mark.parametrize("count", ["2", 2.0, None], ids=repr)
def test_the_number_of_devices_is_an_integer(count):
    with pytest.raises(TypeError, match="integer"):
        config.set_logical_devices("CPU", count)


def test_configurations_make_as_many_devices():
    code = """
    from mirrax import config
    (cpu,) = config.list_physical_devices("CPU")
    config.set_logical_device_configuration(
        cpu, [config.LogicalDeviceConfiguration()] * 3
    )
    """
    assert run_fresh(code, COUNT) == "3"


def test_configurations_cannot_limit_the_memory_of_the_cpu():
    (cpu,) = config.list_physical_devices("CPU")
    with pytest.raises(ValueError, match=r"Setting memory limit.*memory_limit=\[10\]"):
        config.set_logical_device_configuration(
            cpu, [config.LogicalDeviceConfiguration(memory_limit=10)]
        )


@pytest.fixture
def functions_run_eagerly():
    config.run_functions_eagerly(True)
    yield
    config.run_functions_eagerly(False)


@pytest.mark.usefixtures("functions_run_eagerly")
def test_functions_that_run_eagerly_are_python():
    seen = []
    fn = mirrax.function(seen.append)
    fn(1.5)
    fn(1.5)
    assert seen == [1.5, 1.5]
    assert fn.trace_count == 0
    assert config.functions_run_eagerly()


@pytest.mark.usefixtures("functions_run_eagerly")
def test_replicas_run_functions_eagerly(strategy):
    seen = []

    @mirrax.function
    def step(x):
        seen.append(bool(x > 0))
        return x

    @mirrax.function
    def steps(x):
        return strategy.run(step, (x,))

    steps(np.float32(1))
    strategy.run(step, (np.float32(1),))
    assert seen == [True] * 2 * strategy.num_replicas_in_sync


def test_functions_are_compiled_unless_told_otherwise():
    assert not config.functions_run_eagerly()
