"""What the machine has, told without starting JAX wherever that is possible."""

import importlib.metadata
import importlib.util

import jax
import pytest

from mirrax.devices import physical_devices
from mirrax.devices.physical_devices import count_physical_devices


def refuse(*_):
    raise AssertionError("JAX was started.")


@pytest.fixture
def untouched(monkeypatch):
    """A process in which JAX has not started, on a machine without drivers."""
    monkeypatch.setattr(physical_devices, "backend_is_up", lambda: False)
    monkeypatch.setattr(physical_devices, "local_devices", refuse)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: ())
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("PJRT_NAMES_AND_LIBRARY_PATHS", raising=False)
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", None)
    yield monkeypatch
    jax.config.update("jax_platforms", before)


def install_plugin(monkeypatch):
    """Installs a package with a driver."""
    groups = {"jax_plugins": ("a driver",)}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: groups[group])


def install_module(name):
    def install(monkeypatch):
        found = {name: "a module"}
        monkeypatch.setattr(importlib.util, "find_spec", found.get)

    return install


def set_variable(name):
    return lambda monkeypatch: monkeypatch.setenv(name, "driver.so")


DRIVERS = pytest.mark.parametrize(
    "install",
    [
        install_module("jax_plugins"),
        install_module("libtpu"),
        set_variable("PJRT_NAMES_AND_LIBRARY_PATHS"),
        set_variable("TPU_LIBRARY_PATH"),
        install_plugin,
    ],
    ids=["jax_plugins", "libtpu", "names and paths", "path", "entry point"],
)


def test_all_cores_are_one_cpu():
    assert len(jax.devices("cpu")) == 8
    assert count_physical_devices("CPU") == 1


@pytest.mark.usefixtures("untouched")
def test_cpu_is_counted_without_starting_jax():
    assert count_physical_devices("CPU") == 1


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("kind", ["GPU", "TPU", "NONE", ""])
def test_machine_without_drivers_has_no_accelerators(kind):
    assert count_physical_devices(kind) == 0


@DRIVERS
def test_accelerators_are_counted_where_there_is_a_driver(untouched, install):
    install(untouched)
    devices = {"GPU": ("first", "second"), "TPU": ()}
    untouched.setattr(physical_devices, "local_devices", devices.__getitem__)
    assert count_physical_devices("GPU") == 2
    assert count_physical_devices("TPU") == 0


@DRIVERS
def test_drivers_that_jax_may_not_use_are_not_started(untouched, install):
    install(untouched)
    jax.config.update("jax_platforms", "cpu")
    assert count_physical_devices("GPU") == 0


def test_jax_is_asked_once_it_has_started(untouched):
    untouched.setattr(physical_devices, "backend_is_up", lambda: True)
    untouched.setattr(physical_devices, "local_devices", {"GPU": ("one",)}.__getitem__)
    assert count_physical_devices("GPU") == 1


def test_kind_that_is_absent_counts_nothing_after_the_start():
    assert count_physical_devices("GPU") == 0
