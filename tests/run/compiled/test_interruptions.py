"""Ctrl-C at any moment loses no variable and tears no step apart."""

import signal
import threading

import pytest

from mirrax.run.compiled import variable_io
from tests.devices.fresh import run_fresh

# Sends SIGINT to this process from another thread, again and again, as long as it runs.
STORM = """
import os, random, signal, threading, time
import jax, jax.numpy as jnp, mirrax

class Storm:
    def __init__(self, longest_pause):
        self._pause = longest_pause
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._blow, daemon=True)
        self._thread.start()

    def _blow(self):
        while not self._is_over.wait(random.uniform(0, self._pause)):
            os.kill(os.getpid(), signal.SIGINT)

    def end(self):
        self._is_over.set()
        self._thread.join()

def is_inside(frame):
    while frame is not None and frame.f_code.co_name != "act":
        frame = frame.f_back
    return frame is not None

def interrupt(number, frame):
    "Any number of times inside the library, but never in the code of this test."
    if is_inside(frame.f_back):
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)

def until(enough, act, least=0):
    "Acts until it is enough and was interrupted so often; returns how often it was."
    count = 0
    while not enough() or count < least:
        try:
            act()
        except KeyboardInterrupt:
            count += 1
    return count

def make_step(strategy):
    with strategy.scope():
        a, b = mirrax.Variable(jnp.zeros(1000)), mirrax.Variable(jnp.zeros(1000))
    def step():
        a.assign_add(jnp.ones(1000))
        b.assign(a.value)
    return a, b, mirrax.function(step)

def require_whole(a, b):
    assert len(set(a.numpy().tolist())) == 1, a
    assert a.numpy().tolist() == b.numpy().tolist(), (a.numpy()[:3], b.numpy()[:3])
"""


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_storm_during_steps_loses_nothing(num_replicas):
    text = run_fresh(
        STORM,
        f"strategy = mirrax.MirroredStrategy(['CPU:0', 'CPU:1'][:{num_replicas}])",
        """
        a, b, step = make_step(strategy)
        strategy.run(step)
        def act():
            strategy.run(step)
        def enough():
            return a.numpy()[0] >= 501
        storm = Storm(longest_pause=0.002)
        until(enough, act, least=50)
        storm.end()
        require_whole(a, b)
        strategy.run(step)
        require_whole(a, b)
        print("whole")
        """,
    )
    assert text == "whole"


@pytest.mark.parametrize("num_replicas", [1, 2])
@pytest.mark.slow
def test_storm_during_first_calls_loses_nothing(num_replicas):
    text = run_fresh(
        STORM,
        f"strategy = mirrax.MirroredStrategy(['CPU:0', 'CPU:1'][:{num_replicas}])",
        """
        models = count = 0
        while models < 10 or count < 5:
            models += 1
            a, b, step = make_step(strategy)
            def act():
                strategy.run(step)
            def enough():
                return a.numpy()[0] >= 3
            storm = Storm(longest_pause=0.2)
            count += until(enough, act)
            storm.end()
            require_whole(a, b)
        print("whole")
        """,
    )
    assert text == "whole"


def test_interruption_comes_at_the_end_of_a_deferral():
    reached = []

    def call():
        with variable_io.deferred():
            signal.raise_signal(signal.SIGINT)
            reached.append("end")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert reached == ["end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_the_user_are_put_back_and_called():
    calls = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: calls.append(number))
    try:
        with variable_io.deferred():
            signal.raise_signal(signal.SIGTERM)
            assert calls == []
        assert calls == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert calls == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_have_nothing_to_defer():
    seen = []

    def work():
        with variable_io.deferred():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


@pytest.mark.parametrize("kind", ["plain", "flax"])
@pytest.mark.slow
def test_storm_keeps_variables_in_step_that_python_stores(kind):
    text = run_fresh(
        STORM,
        "strategy = mirrax.MirroredStrategy(['CPU:0', 'CPU:1'])",
        """
        with strategy.scope():
            a = mirrax.Variable(jnp.zeros(4))
        """,
        {
            "plain": """
        count = mirrax.Variable(0.0)
        def add():
            count.assign_add(1.0)
        def counted():
            return count.numpy()
        """,
            "flax": """
        from flax import nnx
        count = nnx.Variable(jnp.float32(0))
        def add():
            count[...] = count[...] + 1
        def counted():
            return float(count[...])
        """,
        }[kind],
        """
        @mirrax.function
        def step():
            a.assign_add(jnp.ones(4))
            add()
        step()
        def act():
            step()
        storm = Storm(longest_pause=0.002)
        until(lambda: a.numpy()[0] >= 300, act, least=30)
        storm.end()
        assert a.numpy()[0] == counted(), (a.numpy()[0], counted())
        print("in step")
        """,
    )
    assert text == "in step"
