"""Numbers take the places of sizes wherever they stand in a program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mirrax.jax_symbols import Scope
from mirrax.run.numbered import numbered


def programs():
    """Returns functions of rows, which use sizes in many ways."""
    weights = np.linspace(-1, 1, 15, dtype="float32").reshape(3, 5)
    image = (2, 2, 1, 2)

    def loss(w, x):
        return jnp.mean(jnp.square(x @ w))

    def images(x):
        return jnp.broadcast_to(x[:, :, None, None], (x.shape[0], 3, 3, 1))

    def convolved(kernel, x):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            images(x), kernel, (1, 1), "SAME", dimension_numbers=numbers
        )

    def pooled(x):
        window = (1, 2, 2, 1)
        return lax.reduce_window(images(x), -jnp.inf, lax.max, window, window, "SAME")

    return {
        "sum": lambda x: x.sum(),
        "mean": lambda x: x.mean(),
        "variance": lambda x: x.var(0),
        "centred": lambda x: x - x.mean(0),
        "product": lambda x: x @ weights,
        "outer": lambda x: x @ x.T,
        "einsum": lambda x: jnp.einsum("ij,jk->ik", x, weights),
        "reshape": lambda x: x.reshape(-1),
        "reshape_rows": lambda x: x.reshape(x.shape[0], 1, 3),
        "concatenate": lambda x: jnp.concatenate([x, x[:, :1]], 1),
        "double": lambda x: jnp.concatenate([x, x]),
        "stack": lambda x: jnp.stack([x, x], 1),
        "repeat": lambda x: jnp.repeat(x, 2, 0),
        "pad": lambda x: jnp.pad(x, ((0, 2), (0, 0))),
        "one_hot": lambda x: jax.nn.one_hot(x[:, 0].astype(int), 5),
        "log_softmax": jax.nn.log_softmax,
        "sort": lambda x: jnp.sort(x, 0),
        "median": lambda x: jnp.median(x, 0),
        "argmax": lambda x: jnp.argmax(x, 0),
        "cumsum": lambda x: jnp.cumsum(x, 0),
        "roll": lambda x: jnp.roll(x, 1, 0),
        "flip": lambda x: x[::-1],
        "first_and_last": lambda x: x[0] + x[-1],
        "take": lambda x: jnp.asarray(weights)[x[:, 0].astype(int)],
        "segments": lambda x: jax.ops.segment_sum(x, x[:, 0].astype(int), 4),
        "arange": lambda x: jnp.arange(x.shape[0]),
        "shape": lambda x: jnp.array(x.shape),
        "divided": lambda x: x.sum() / x.shape[0],
        "size": lambda x: x * x.size,
        "random": lambda x: jax.random.normal(jax.random.key(0), x.shape),
        "dropout": lambda x: x * jax.random.bernoulli(jax.random.key(1), 0.5, x.shape),
        "scan": lambda x: lax.scan(lambda c, r: (c + r.sum(), c), 0.0, x),
        "map": lambda x: lax.map(lambda r: r * 2, x),
        "vmap": jax.vmap(lambda r: r / r.sum()),
        "loop": lambda x: lax.fori_loop(
            0, len(x.T), lambda i, c: c + x[:, i].sum(), 0.0
        ),
        "loop_rows": lambda x: lax.fori_loop(
            0, x.shape[0], lambda i, c: c + x[i].sum(), 0.0
        ),
        "cond": lambda x: lax.cond(x.sum() > 0, lambda: x, lambda: x * 2),
        "jit": jax.jit(lambda y: y.mean() * y.shape[0]),
        "gradient": lambda x: jax.grad(loss)(weights, x),
        "gradient_of_rows": lambda x: jax.grad(loss, 1)(weights, x),
        "gradient_of_scan": jax.grad(
            lambda x: lax.scan(lambda c, r: (c + jnp.sin(r).sum(), c), 0.0, x)[0]
        ),
        "gradient_of_relu": jax.grad(lambda x: jax.nn.relu(x).sum()),
        "checkpoint": jax.grad(jax.checkpoint(lambda x: jnp.sin(x).sum())),
        "convolution": lambda x: convolved(np.ones(image, "float32"), x),
        "gradient_of_convolution": lambda x: jax.grad(
            lambda kernel: convolved(kernel, x).sum()
        )(np.ones(image, "float32")),
        "gradient_of_pooling": jax.grad(lambda x: pooled(x).sum()),
        "callback": lambda x: jax.pure_callback(np.sin, x, x),
    }


PROGRAMS = programs()


def described(shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def rows(count):
    return np.random.default_rng(count).normal(size=(count, 3)).astype("float32") * 3


def traced(fn, scope):
    over_sizes = jax.make_jaxpr(fn)(described((scope.size("n"), 3)))
    scope.close()
    return over_sizes


def evaluated(over_sizes, count):
    closed = numbered(over_sizes, {"n": count})
    evaluate = jax.jit(lambda x: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x))
    return content(evaluate(rows(count)))


def content(results):
    leaves = jax.tree.leaves(results)
    return [(x.aval.str_short(), np.asarray(x).tobytes()) for x in leaves]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_bit_for_bit_that_of_its_own_trace(name):
    scope = Scope({"n": 4})
    over_sizes = traced(PROGRAMS[name], scope)
    assert scope.fits({"n": 1})
    assert scope.fits({"n": 5})
    assert evaluated(over_sizes, 1) == content(jax.jit(PROGRAMS[name])(rows(1)))
    assert evaluated(over_sizes, 5) == content(jax.jit(PROGRAMS[name])(rows(5)))


@pytest.mark.parametrize(
    "name", ["sum", "mean", "variance", "product", "double", "scan", "gradient"]
)
def test_a_program_without_rows_is_that_of_its_own_trace(name):
    scope = Scope({"n": 4})
    over_sizes = traced(PROGRAMS[name], scope)
    assert scope.fits({"n": 0})
    assert evaluated(over_sizes, 0) == content(jax.jit(PROGRAMS[name])(rows(0)))


def test_a_program_that_needs_a_row_does_not_fit_none():
    scope = Scope({"n": 4})
    traced(PROGRAMS["first_and_last"], scope)
    assert not scope.fits({"n": 0})


def test_a_program_that_is_called_twice_stays_one():
    inner = jax.jit(lambda x: x.mean(0))
    scope = Scope({"n": 4})
    over_sizes = jax.make_jaxpr(lambda x: inner(x) + inner(x))(
        described((scope.size("n"), 3))
    )
    calls = [e for e in numbered(over_sizes, {"n": 2}).eqns if "jaxpr" in e.params]
    assert calls[0].params["jaxpr"].jaxpr is calls[1].params["jaxpr"].jaxpr


def test_a_size_as_a_value_is_a_constant():
    scope = Scope({"n": 4})
    over_sizes = jax.make_jaxpr(lambda x: x / x.shape[0])(described((scope.size("n"),)))
    assert "div a 2.0:f32[]" in str(numbered(over_sizes, {"n": 2}))
