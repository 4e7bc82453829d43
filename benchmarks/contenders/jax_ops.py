"""The operations of `models.py`, in JAX."""

import jax
import jax.numpy as jnp
from models import NUM_HEADS, scores

relu = jax.nn.relu
NUMBER = jax.ShapeDtypeStruct((), jnp.float32)


def dense(x, w, b):
    return x @ w + b


def conv(x, w, stride):
    return jax.lax.conv_general_dilated(
        x,
        w,
        (stride, stride),
        [(1, 1), (1, 1)],
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(x, scale, shift):
    return _normalized(x, (0, 1, 2)) * scale + shift


def layer_norm(x, scale, shift):
    return _normalized(x, -1) * scale + shift


def _normalized(x, axes):
    mean = x.mean(axes, keepdims=True)
    variance = jnp.square(x - mean).mean(axes, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def embed(table, ids):
    return table[ids]


def split_heads(x):
    rows, length, width = x.shape
    parts = x.reshape(rows, length, 3, NUM_HEADS, width // 3 // NUM_HEADS)
    return tuple(parts.transpose(2, 0, 3, 1, 4))


def attention(q, k, v):
    weights = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(weights.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(mask, weights, -jnp.inf)) @ v


def merge_heads(x):
    rows, heads, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(rows, length, heads * width)


def mean_pool(x):
    return x.mean((1, 2))


def loss_of(ops, model, p, x, y):
    """Returns the mean loss of the rows."""
    logits = jax.nn.log_softmax(scores(ops, model, p, x))
    return -jnp.take_along_axis(logits, y[..., None], -1).mean()
