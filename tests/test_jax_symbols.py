"""Sizes answer for the call being traced, and note what they were asked."""

import copy
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrax.jax_symbols import Scope, Size, number_of


@pytest.fixture
def scope():
    return Scope({"n": 4, "m": 3})


@pytest.fixture
def n(scope):
    return scope.size("n")


def fitting(scope, numbers=range(7)):
    return [number for number in numbers if scope.fits({"n": number, "m": 3})]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda n: 2 * n + 1, 15),
        (lambda n: 3 - n, -4),
        (lambda n: n * n, 49),
        (lambda n: n // 2, 3),
        (lambda n: n % 4, 3),
        (lambda n: divmod(n, 2)[1], 1),
        (lambda n: 9 // n, 1),
        (lambda n: -n, -7),
        (lambda n: n**2, 49),
        (lambda n: n.max(5), 7),
        (lambda n: n.min(5), 5),
        (lambda n: n.rmax(9), 9),
        (lambda n: n.rmin(9), 7),
        (lambda n: math.prod((n, 2)), 14),
    ],
)
def test_expressions_are_sizes_with_a_number(scope, n, expression, expected):
    size = expression(n)
    assert isinstance(size, Size)
    assert number_of(size, {"n": 7}) == expected
    assert fitting(scope) == [*range(7)]


def test_a_number_is_its_own_number():
    assert number_of(5, {}) == 5


@pytest.mark.parametrize(
    ("question", "answer", "fits"),
    [
        (lambda n: n > 2, True, [3, 4, 5, 6]),
        (lambda n: n >= 5, False, [0, 1, 2, 3, 4]),
        (lambda n: n < 4, False, [4, 5, 6]),
        (lambda n: n <= 4, True, [0, 1, 2, 3, 4]),
        (lambda n: n == 4, True, [4]),
        (lambda n: n != 3, True, [0, 1, 2, 4, 5, 6]),
        (lambda n: n == 1, False, [0, 2, 3, 4, 5, 6]),
        (lambda n: 2 * n == 8, True, [4]),
        (bool, True, [1, 2, 3, 4, 5, 6]),
        (lambda n: n > 2.5, True, [4]),
        (lambda n: n in (3, 4), True, [4]),
        (lambda n: n == n + 1, False, [*range(7)]),
        (lambda n: n == "n", False, [*range(7)]),
        (lambda n: n is None, False, [*range(7)]),
    ],
)
def test_questions_are_answered_and_noted(scope, n, question, answer, fits):
    assert question(n) is answer
    assert fitting(scope) == fits


@pytest.mark.parametrize(
    ("use", "result"),
    [
        (int, 4),
        (float, 4.0),
        (range, range(4)),
        (lambda n: n / 8, 0.5),
        (lambda n: 1 / n, 0.25),
        (lambda n: n * 0.5, 2.0),
        (lambda n: 0.5 - n, -3.5),
        (lambda n: [1] * n, [1] * 4),
        (math.sqrt, 2.0),
        (lambda n: np.zeros(n).shape, (4,)),
    ],
)
def test_what_needs_the_number_gets_it_and_fits_no_other(scope, n, use, result):
    assert use(n) == result
    assert fitting(scope) == [4]


def test_sizes_of_other_scopes_are_never_equal(n):
    assert n != Scope({"n": 4}).size("n")


def test_what_is_asked_after_the_trace_is_not_noted(scope, n):
    scope.close()
    assert n > 3
    assert (n == 4) is False
    assert fitting(scope) == [*range(7)]


def test_a_copy_is_the_same_size(n):
    assert copy.deepcopy(n) is n


def test_the_smaller_of_a_size_and_0_is_not_decided_for_all_sizes(scope, n):
    # JAX takes it for granted that a size is 1 at least.
    assert n.max(1) is n
    assert fitting(scope) == [1, 2, 3, 4, 5, 6]


def test_arrays_are_compared_as_arrays(n):
    def compare(x):
        return x.shape[0] == x[0], x.shape[0] != x[0], x.shape[0] > x[0]

    results = jax.eval_shape(compare, jax.ShapeDtypeStruct((n,), jnp.int32))
    assert [result.dtype for result in results] == [bool, bool, bool]


def test_a_size_on_both_sides_of_a_broadcast_asks_nothing(scope, n):
    rows = jax.ShapeDtypeStruct((n, 3), jnp.float32)
    out = jax.eval_shape(lambda x: (x - x.mean(0)) * x, rows)
    assert out.shape == (n, 3)
    assert fitting(scope, range(1, 7)) == [*range(1, 7)]


def test_equal_numbers_in_different_places_are_noted(scope, n):
    m = scope.size("m")
    rows = jax.ShapeDtypeStruct((n - 1,), jnp.float32)
    jax.eval_shape(jnp.add, rows, jax.ShapeDtypeStruct((m,), jnp.float32))
    assert fitting(scope) == [4]


def test_what_jax_has_seen_before_is_no_question(scope, n):
    # Enough for a cache of JAX to compare sizes with numbers, by chance.
    shapes = [(number, other) for number in (0, 4) for other in range(200)]
    for shape in shapes:
        jax.eval_shape(jnp.negative, jax.ShapeDtypeStruct(shape, jnp.float32))
    for other in range(200):
        described = jax.ShapeDtypeStruct((n, other), jnp.float32)
        jax.eval_shape(jnp.negative, described)
    assert fitting(scope) == [*range(7)]


def test_jax_asking_for_no_rows_is_noted(scope, n):
    jax.eval_shape(jnp.argmax, jax.ShapeDtypeStruct((n,), jnp.float32))
    assert fitting(scope) == [1, 2, 3, 4, 5, 6]
