"""Eight logical CPU devices, strategies to test with, and no leaks between tests."""

import gc
import os
import pathlib
import random
import signal
import threading

# All must come before JAX starts its backend, hence before anything is collected.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["KERAS_BACKEND"] = "jax"
from tests.quick_compiler import SETTINGS

# Small programs that run a few times take their time to compile, not to run.
QUICK = {name: text for name, text in SETTINGS.items() if name not in os.environ}
os.environ.update(QUICK)

import hypothesis
import jax
import pytest

import mirrax

# A shell that starts us in the background lets us ignore Ctrl-C, and all that we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does. The same examples in
# every run: a change that fails has broken something itself.
hypothesis.settings.register_profile(
    "mirrax",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("mirrax")

# Many tests compile the same small programs, which JAX then finds in this folder. It
# stays for the next run.
COMPILED = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "compiled"
jax.config.update("jax_compilation_cache_dir", str(COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

# tests/conformance/conftest.py asks for 4: the last call before JAX starts decides.
mirrax.config.set_logical_devices("CPU", 8)

# Set by pytest, and by scikit-learn and Keras when they are first imported.
FOREIGN_VARIABLES = {
    "PYTEST_CURRENT_TEST",
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "TF_FORCE_GPU_ALLOW_GROWTH",
}


def pytest_addoption(parser):
    help = "run the tests in a random order, the one of this seed"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=help)


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_collection_finish():
    """Starts JAX with its settings, and spares collections what imports have made."""
    jax.block_until_ready(jax.numpy.zeros(1) + 1)
    for name in QUICK:
        os.environ.pop(name, None)
    gc.collect()
    gc.freeze()


@pytest.fixture(
    params=[
        pytest.param(lambda: mirrax.OneDeviceStrategy("CPU:0"), id="one_device"),
        pytest.param(lambda: mirrored(1), id="mirrored_1", marks=pytest.mark.slow),
        pytest.param(lambda: mirrored(2), id="mirrored_2"),
    ],
)
def strategy(request):
    """Each strategy of one process in turn: the same test body must hold for all.

    What more than two replicas could change is in tests with `four_replicas`, and in
    random programs.
    """
    return request.param()


@pytest.fixture
def two_replicas():
    return mirrored(2)


@pytest.fixture
def four_replicas():
    return mirrored(4)


def mirrored(num_replicas):
    return mirrax.MirroredStrategy([f"CPU:{i}" for i in range(num_replicas)])


@pytest.fixture(autouse=True)
def no_leaks():
    """Fails a test that leaves a strategy, thread or environment variable behind."""
    threads = set(threading.enumerate())
    environment = own_environment()
    terminate = signal.getsignal(signal.SIGTERM)
    yield
    # A program that ends because of SIGTERM ignores further ones.
    signal.signal(signal.SIGTERM, terminate)
    assert not mirrax.has_strategy(), "The test left a strategy entered."
    assert own_environment() == environment, "The test changed os.environ."
    new = set(threading.enumerate()) - threads
    # Threads of XLA that have run a callback cannot be joined.
    leaked = {t for t in new if not isinstance(t, threading._DummyThread)}
    for thread in leaked:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in leaked), f"Threads left: {leaked}."


def own_environment():
    return {k: v for k, v in os.environ.items() if k not in FOREIGN_VARIABLES}
