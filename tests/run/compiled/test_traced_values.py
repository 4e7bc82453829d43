"""Python that needs the values of traced arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax


@pytest.mark.parametrize(
    "fn",
    [
        pytest.param(lambda n: 1 if n > 0 else 2, id="if"),
        pytest.param(lambda n: [10, 11, 12, 13][n], id="index"),
        pytest.param(lambda n: int(n) + 1, id="int"),
        pytest.param(lambda n: np.add(n, 1), id="numpy"),
        pytest.param(lambda n: jnp.arange(5)[jnp.arange(5) < n], id="mask"),
    ],
)
def test_error_of_jax_has_a_hint(fn):
    with pytest.raises((TypeError, IndexError)) as caught:
        mirrax.function(fn)(jnp.int32(3))
    (note,) = [note for note in caught.value.__notes__ if "[mirrax]" in note]
    assert "mirrax.cond" in note


def test_replicas_get_the_hint_too(two_replicas):
    fn = mirrax.function(lambda x: x if x > 0 else -x)
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        two_replicas.run(fn, (1.0,))
    assert any("mirrax.cond" in note for note in caught.value.__notes__)


def test_question_that_a_library_answers_itself_changes_nothing():
    @mirrax.function
    def fn(x):
        # JAX asks for the length of the scan, and goes on without it.
        return jax.lax.scan(lambda total, row: (total + row, None), 0.0, x)[0]

    assert float(fn(np.ones(3, np.float32))) == 3.0


def test_dataset_in_a_try_is_driven():
    dataset = mirrax.data.Dataset.from_tensor_slices(np.arange(3.0, dtype=np.float32))

    @mirrax.function
    def total():
        result = 0.0
        try:
            for x in dataset:
                result += x
        except Exception:
            result = -1.0
        return result

    assert float(total()) == 3.0


class Driven(mirrax.Function):
    """A function whose Python runs where a trace fails."""

    def falls_back_to_python(self, error):
        return isinstance(error, jax.errors.TracerBoolConversionError)


def test_subclass_runs_python_after_a_failed_trace(strategy):
    traced = []

    def step(x):
        traced.append(isinstance(x, jax.core.Tracer))
        return 2 * x if x > 0 else x

    def whole(x):
        total = strategy.reduce("SUM", strategy.run(lambda y: y + 1, (x,)), axis=None)
        return total if total > 0 else -total

    count = strategy.num_replicas_in_sync
    fn = Driven(whole)
    assert [float(fn(1.0)), float(fn(-3.0))] == [2.0 * count, 2.0 * count]
    found = strategy.run(Driven(step), (np.float32(3),))
    assert [float(x) for x in strategy.experimental_local_results(found)] == [6] * count
    assert traced[0]
    assert not traced[-1]
