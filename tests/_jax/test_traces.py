import jax
import jax.numpy as jnp
import pytest

from mirrax._jax import tape_trace, traces


@pytest.mark.parametrize(
    ("transform", "is_eager", "is_staging"),
    [
        (lambda f: f(), True, False),
        (lambda f: jax.jit(f)(), False, True),
        (lambda f: jax.grad(lambda x: [f()] and x)(1.0), False, False),
        (lambda f: jax.vmap(lambda x: [f()] and x)(jnp.ones(2)), False, False),
        (lambda f: jax.jit(jax.grad(lambda x: [f()] and x))(1.0), False, True),
        (lambda f: jax.jit(jax.vmap(lambda x: [f()] and x))(jnp.ones(2)), False, True),
    ],
    ids=["eager", "jit", "grad", "vmap", "jit_of_grad", "jit_of_vmap"],
)
def test_traces_are_told_apart(transform, is_eager, is_staging):
    seen = []
    transform(lambda: seen.append((traces.is_eager(), traces.is_staging())))
    assert seen == [(is_eager, is_staging)]


def test_only_what_was_begun_inside_counts_as_staging():
    seen = []

    @jax.jit
    def outer(x):
        trace = traces.current_trace()
        seen.append(traces.is_staging(inside=trace))
        jax.lax.scan(lambda c, _: (c, look(trace)), x, None, length=1)
        return x

    def look(trace):
        seen.append(traces.is_staging(inside=trace))

    outer(1.0)
    assert seen == [False, True]


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: f(1.0), True),
        (lambda f: jax.grad(f)(1.0), True),
        (lambda f: jax.jvp(f, (1.0,), (1.0,)), True),
        (lambda f: jax.grad(jax.grad(f))(1.0), True),
        (lambda f: jax.vmap(f)(jnp.ones(2)), False),
        (lambda f: jax.jit(jax.grad(f))(1.0), False),
    ],
    ids=["eager", "grad", "jvp", "second_grad", "vmap", "jit_of_grad"],
)
def test_derivatives_are_told_apart(transform, expected):
    seen = set()

    def look(x):
        seen.add(tape_trace.is_differentiating_only())
        return x

    transform(look)
    assert seen == {expected}


def test_only_code_that_xla_calls_is_in_a_callback():
    seen = []

    def look(x):
        seen.append(traces.is_in_callback())
        return x

    jax.jit(lambda x: jax.pure_callback(look, x, look(x)))(1.0).block_until_ready()
    assert seen == [False, True]
