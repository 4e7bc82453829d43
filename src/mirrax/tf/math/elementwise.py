"""Elementwise functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special

from mirrax.tf.math import ties
from mirrax.tf.namespaces.operations import Array, of_one, of_two, operations
from mirrax.tf.tensors.host_tensors import host
from mirrax.tf.tensors.tensor import (
    conjugate,
    holds_strings,
    operands,
    string_tensor,
    tensor,
)

_PRIVATE = frozenset(globals())


def _of_two_or_strings(function: Any, of_strings: Any) -> Any:
    numeric = of_two(function)

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if holds_strings(x) or holds_strings(y):
            return host(
                np.asarray(of_strings(string_tensor(x), string_tensor(y)), bool)
            )
        return numeric(x, y)

    return call


def _without_gradient(function: Any) -> Any:
    """Returns a step function of TensorFlow, whose gradient is None and not 0."""
    return of_one(lambda x: lax.stop_gradient(function(x)))


# Unary functions.
abs = of_one(ties.absolute)
acos = of_one(jnp.arccos)
acosh = of_one(jnp.arccosh)
angle = of_one(jnp.angle)
asin = of_one(jnp.arcsin)
asinh = of_one(jnp.arcsinh)
atan = of_one(jnp.arctan)
atanh = of_one(jnp.arctanh)
bessel_i0 = of_one(special.i0)
bessel_i0e = of_one(special.i0e)
bessel_i1 = of_one(special.i1)
bessel_i1e = of_one(special.i1e)
ceil = _without_gradient(jnp.ceil)
conj = of_one(jnp.conj)
cos = of_one(jnp.cos)
cosh = of_one(jnp.cosh)
digamma = of_one(special.digamma)
erf = of_one(special.erf)
erfc = of_one(special.erfc)
erfinv = of_one(special.erfinv)
erfcinv = of_one(lambda x: special.erfinv(1 - x))
exp = of_one(jnp.exp)
expm1 = of_one(jnp.expm1)
floor = _without_gradient(jnp.floor)
imag = of_one(jnp.imag)
is_finite = of_one(jnp.isfinite)
is_inf = of_one(jnp.isinf)
is_nan = of_one(jnp.isnan)
lgamma = of_one(special.gammaln)
log = of_one(jnp.log)
log1p = of_one(jnp.log1p)
log_sigmoid = of_one(jax.nn.log_sigmoid)
logical_not = of_one(jnp.logical_not)
ndtri = of_one(special.ndtri)
negative = of_one(jnp.negative)
real = of_one(jnp.real)
reciprocal = of_one(jnp.reciprocal)
rint = _without_gradient(jnp.rint)
round = _without_gradient(jnp.round)
rsqrt = of_one(lax.rsqrt)
sigmoid = of_one(jax.nn.sigmoid)
sign = of_one(jnp.sign)
sin = of_one(jnp.sin)
sinh = of_one(jnp.sinh)
sqrt = of_one(jnp.sqrt)
square = of_one(jnp.square)
tan = of_one(jnp.tan)
tanh = of_one(jnp.tanh)

# Binary functions.
add = of_two(jnp.add)
divide = of_two(jnp.true_divide)
equal = _of_two_or_strings(jnp.equal, np.equal)
floordiv = of_two(lambda x, y: lax.stop_gradient(jnp.floor_divide(x, y)))
floormod = of_two(jnp.mod)
greater = of_two(jnp.greater)
greater_equal = of_two(jnp.greater_equal)
igamma = of_two(special.gammainc)
igammac = of_two(special.gammaincc)
less = of_two(jnp.less)
less_equal = of_two(jnp.less_equal)
logical_and = of_two(jnp.logical_and)
logical_or = of_two(jnp.logical_or)
logical_xor = of_two(jnp.logical_xor)
maximum = of_two(lambda x, y: _differentiable(ties.maximum, x, y))
minimum = of_two(lambda x, y: _differentiable(ties.minimum, x, y))
mod = of_two(jnp.mod)
multiply = of_two(jnp.multiply)
nextafter = of_two(jnp.nextafter)
not_equal = _of_two_or_strings(jnp.not_equal, np.not_equal)
polygamma = of_two(lambda a, x: special.polygamma(a.astype(int), x))
pow = of_two(jnp.power)
squared_difference = of_two(lambda x, y: (x - y) * conjugate(x - y))
subtract = of_two(jnp.subtract)
truediv = of_two(jnp.true_divide)
truncatediv = of_two(lambda x, y: jnp.trunc(x / y).astype(jnp.result_type(x, y)))
truncatemod = of_two(jnp.fmod)
xlogy = of_two(ties.unless_zero(special.xlogy))
xlog1py = of_two(ties.unless_zero(special.xlog1py))
xdivy = of_two(ties.unless_zero(jnp.divide))
zeta = of_two(special.zeta)


def atan2(y: Any, x: Any) -> Any:
    return jnp.arctan2(*operands(y, x))


def betainc(a: Any, b: Any, x: Any) -> Any:
    return special.betainc(*operands(a, b, x))


def divide_no_nan(x: Any, y: Any) -> Any:
    x, y = operands(x, y)
    is_zero = jnp.equal(y, 0)
    return jnp.where(is_zero, 0, x / jnp.where(is_zero, 1, y))


def multiply_no_nan(x: Any, y: Any) -> Any:
    x, y = operands(x, y)
    return jnp.where(jnp.equal(y, 0), 0, x * y)


def reciprocal_no_nan(x: Any) -> Any:
    return divide_no_nan(jnp.ones_like(tensor(x)), x)


def scalar_mul(scalar: Any, x: Any) -> Any:
    return multiply(scalar, x)


def add_n(inputs: Any) -> Any:
    first, *rest = [tensor(value) for value in inputs]
    return sum(rest, start=first)


def accumulate_n(inputs: Any, shape: Any = None, tensor_dtype: Any = None) -> Any:
    return add_n(inputs)


def polyval(coeffs: Any, x: Array) -> Any:
    total = jnp.zeros_like(x)
    for coefficient in coeffs:
        total = total * x + coefficient
    return total


def clip_by_value(t: Array, clip_value_min: Any, clip_value_max: Any) -> Any:
    return _differentiable(ties.clip, t, clip_value_min, clip_value_max)


def _differentiable(function: Any, *values: Any) -> Any:
    """Calls a function of arrays of one floating dtype, whose gradients are its own."""
    dtype = jnp.result_type(*values)
    return function(*[jnp.asarray(value, dtype) for value in values])


operations(globals(), _PRIVATE)
