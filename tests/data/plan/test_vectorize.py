"""Functions called once for many elements come to the same as for each."""

import itertools
import random

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from mirrax.data import Dataset
from mirrax.data.plan import vectorize
from mirrax.data.plan.vectorize import is_deterministic
from tests.data.plans import PER_ELEMENT, build, elements, quick, recipes

FUNCTIONS = {
    "arithmetic": lambda x: x * 2 + 1,
    "division": lambda x: x / 3,
    "power": lambda x: x**2.5,
    "square": lambda x: x**2,
    "exponential": np.exp,
    "logarithm": lambda x: np.log1p(np.abs(x)),
    "sine": np.sin,
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "sum over rows": lambda x: x.sum(axis=0),
    "mean over columns": lambda x: x.mean(axis=-1),
    "largest": lambda x: x.max() - x.min(axis=1),
    "numpys sum": np.sum,
    "part": lambda x: x[1],
    "columns": lambda x: x[..., ::2],
    "new axis": lambda x: x[None],
    "listed": lambda x: x[[0, 0]],
    "reshape": lambda x: x.reshape(-1),
    "reshape to a tuple": lambda x: x.reshape((5, 3)),
    "broadcast": lambda x: x + np.ones((2, 1, 5), np.float32),
    "product": lambda x: x @ x.T,
    "cast": lambda x: x.astype(np.int32),
    "constant": lambda x: 5,
    "constant array": lambda x: np.arange(3),
    "constant text": lambda x: "text",
    "constant bytes": lambda x: b"text",
    "nothing": lambda x: (x, None),
    "nested": lambda x: {"a": x, "b": (x + 1, 2.0)},
    "branch": lambda x: x if x.sum() > 0 else -x,
    "where": lambda x: np.where(x > 0, x, 0),
    "length": lambda x: x * len(x),
    "type": lambda x: 1 if isinstance(x, np.ndarray) else 2,
    "loop": lambda x: sum(row[0] for row in x),
    "jax": jnp.sin,
    "python": lambda x: float(x[0, 0]),
    "two results": np.modf,
    "comparison": lambda x: x > 0,
    "transpose": np.transpose,
    "attribute": lambda x: x.size,
    "accumulate": np.add.accumulate,
    "shape": lambda x: x * x.shape[0] + x.ndim,
}


def both_ways(dataset, function, size):
    """Returns the elements of batches of a function, one way and the other."""
    fast = dataset.map(function).batch(size)
    slow = dataset.with_options(PER_ELEMENT).map(function).batch(size)
    return elements(fast), elements(slow)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["32", "64"])
def test_arrays_come_out_the_same_to_the_last_bit(function, dtype):
    rows = np.random.default_rng(0).normal(size=(64, 3, 5)).astype(dtype)
    with np.errstate(invalid="ignore"):
        fast, slow = both_ways(Dataset.from_tensor_slices(rows), function, 16)
    np.testing.assert_equal(fast, slow)


SCALAR_FUNCTIONS = {
    "arithmetic": lambda x: x * 2 + 1,
    "fraction": lambda x: x * 0.1,
    "division": lambda x: x / 3,
    "floor": lambda x: x // 3,
    "remainder": lambda x: x % 3,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "power": lambda x: abs(x) ** 2.5,
    "root": lambda x: abs(x) ** 0.5,
    "exponential": lambda x: np.exp(x / 50),
    "tanh": np.tanh,
    "negative": lambda x: -x,
    "negative shift": lambda x: 7 - x,
    "index": lambda x: np.arange(100)[int(x) % 100],
    "broadcast": lambda x: x + np.arange(3),
}


@pytest.mark.parametrize(
    "function", SCALAR_FUNCTIONS.values(), ids=SCALAR_FUNCTIONS.keys()
)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scalars_come_out_the_same_to_the_last_bit(function, dtype):
    rows = np.random.default_rng(0).uniform(0, 100, 200).astype(dtype)
    fast, slow = both_ways(Dataset.from_tensor_slices(rows), function, 50)
    np.testing.assert_equal(fast, slow)


@quick
@given(recipes())
def test_random_plans_give_the_same_elements_both_ways(recipe):
    assert elements(build(recipe)) == elements(build(recipe, PER_ELEMENT))


# Functions that are not the same each time must be called for each element.


def test_a_random_number_is_drawn_for_each_element():
    batch = next(iter(Dataset.range(64).map(lambda x: np.random.rand()).batch(64)))
    assert len(set(batch.tolist())) == 64


def test_pythons_random_number_is_drawn_for_each_element():
    batch = next(iter(Dataset.range(64).map(lambda x: random.gauss()).batch(64)))
    assert len(set(batch.tolist())) == 64


def test_a_generators_random_choice_is_made_for_each_element():
    # Every other pair of draws is equal, so one comparison proves nothing.
    generator = np.random.default_rng(0)
    dataset = Dataset.range(64).map(lambda x: generator.integers(0, 2) + 0 * x)
    batches = [next(iter(dataset.batch(64))).tolist() for _ in range(20)]
    assert all(len(set(batch)) == 2 for batch in batches)


def test_a_function_with_a_memory_is_called_for_each_element():
    calls = itertools.count()
    batch = next(iter(Dataset.range(8).map(lambda x: next(calls) // 4).batch(8)))
    assert len(set(batch.tolist())) > 1


def test_what_differs_between_rows_is_not_decided_by_the_last():
    table = {i: i for i in range(8)}
    dataset = Dataset.range(8).map(lambda x: table.get(x, 7) if x.shape == () else 0)
    assert next(iter(dataset.batch(8))).tolist() == list(range(8))


@pytest.mark.parametrize("name", ["x", "longer"])
def test_text_is_bytes_whichever_way(name):
    dataset = Dataset.range(4).map(lambda x: (x, name)).batch(4)
    assert next(iter(dataset))[1].tolist() == [name.encode()] * 4


# Functions that later calls cannot change.


def writes_global(x):
    global SEEN  # noqa: PLW0603 - this is what is tested
    SEEN = x
    return x


def keeps_in_default(x, kept=[]):  # noqa: B006 - this is what is tested
    kept.append(1)
    return x


SCALE = np.float32(2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x * 2.0 - 1.0, True),
        (lambda x: np.sqrt(x) * SCALE, True),
        (lambda x: writes_global(x) + 1, False),
        (keeps_in_default, False),
        (np.random.default_rng(0).random, False),
        (lambda x, d=object(): x, False),  # noqa: B008
    ],
    ids=["constants", "module", "inner", "default", "method", "object"],
)
def test_a_function_is_steady_if_it_sees_constants_and_leaves_nothing(
    function, expected
):
    assert is_deterministic(function) is expected


def test_random_numbers_from_a_later_call_on_are_drawn_for_each_element():
    calls = 0

    def later(x):
        nonlocal calls
        calls += 1
        return x + (np.random.random() if calls > 4 else 0.0)

    batches = list(Dataset.from_tensor_slices(np.zeros(64)).map(later).batch(8))
    assert len(set(np.concatenate(batches[3:]).tolist())) == 40


def test_a_steady_function_is_watched_until_it_is_known(monkeypatch):
    looks = []
    real = vectorize._random_states
    monkeypatch.setattr(vectorize, "_random_states", lambda: looks.append(1) or real())
    list(Dataset.range(64).map(lambda x: x * 2).batch(8))
    assert len(looks) == 2
