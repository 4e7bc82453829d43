"""Libraries are connected whenever they are imported, and only then."""

import os
import subprocess
import sys
import textwrap

import pytest


def run(source, **environment):
    """Returns what a program prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "source",
    [
        """
        import keras
        import mirrax
        with mirrax.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            variable = keras.Variable(1.0)
        print(len(variable.value.devices()))
        """,
        """
        import importlib.util
        import mirrax
        importlib.util.find_spec("keras")
        with mirrax.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
            import keras
            variable = keras.Variable(1.0)
        print(len(variable.value.devices()))
        """,
    ],
    ids=["keras first", "looked for, then imported in the scope"],
)
def test_keras_is_connected_in_any_order(source):
    assert run(source) == ["2"]


def test_missing_library_is_reported_as_ever():
    source = """
        import sys
        import mirrax
        from mirrax.integrations import when_imported
        when_imported("no_such_library", "mirrax.integrations.keras")
        for _ in range(2):
            try:
                import no_such_library
            except ModuleNotFoundError as error:
                print(error.name)
    """
    assert run(source) == ["no_such_library"] * 2


def test_another_backend_is_refused_in_a_scope_and_works_elsewhere():
    source = """
        import mirrax
        import keras
        outside = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        print(len(outside.weights))
        try:
            with mirrax.MirroredStrategy(["CPU:0"]).scope():
                keras.layers.Dense(1)
        except RuntimeError as error:
            print("backend 'numpy'" in str(error), "KERAS_BACKEND=jax" in str(error))
    """
    assert run(source, KERAS_BACKEND="numpy") == ["2", "True", "True"]


def test_unknown_version_of_keras_is_refused_in_a_scope():
    source = """
        import keras
        import keras.src.losses.loss
        del keras.src.losses.loss.scale_loss_for_distribution
        import mirrax
        try:
            with mirrax.MirroredStrategy(["CPU:0"]).scope():
                keras.Variable(1.0)
        except RuntimeError as error:
            print("scale_loss_for_distribution" in str(error), "3.15" in str(error))
        print(float(keras.Variable(1.0).value))
    """
    assert run(source) == ["True", "True", "1.0"]


def test_flax_can_be_imported_inside_a_step():
    source = """
        import jax.numpy as jnp
        import mirrax

        strategy = mirrax.MirroredStrategy(["CPU:0", "CPU:1"])
        w = mirrax.Variable(1.0)

        @mirrax.function
        def first():
            import flax.nnx

            return mirrax.value_and_grad(lambda: 2 * w.value, w)()

        strategy.run(first)
        from flax import nnx

        model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))

        @mirrax.function
        def step(x):
            gradients = nnx.grad(lambda model: model(x).sum())(model)
            return mirrax.get_replica_context().all_reduce("SUM", gradients)

        print(strategy.run(step, args=(jnp.ones((1, 3)),)).bias.get_value())
    """
    assert run(source) == ["[2.", "2.]"]
