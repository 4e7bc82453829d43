"""The models that all contenders train, written once for all libraries.

A library gives `ops`: dense, relu, conv, batch_norm, layer_norm, attention, embed,
split_heads, merge_heads and mean_pool.
"""

import itertools

import numpy as np

RATE = 0.05
NUM_HEADS = 4
SEQUENCE, VOCABULARY, WIDTH, LAYERS = 32, 256, 128, 2
_SIZES = {"mlp_small": [784, 128, 10], "mlp_large": [784, 1024, 1024, 10]}
_FILTERS = [(3, 32), (32, 64), (64, 64)]


def parameters(model):
    """Returns the first parameters, by name."""
    random = np.random.default_rng(7)
    made = {}

    def add(name, *shape):
        scale = (2 / np.prod(shape[:-1])) ** 0.5
        made[name] = random.standard_normal(shape, np.float32) * np.float32(scale)

    def add_dense(name, a, b):
        add(f"dense/{name}/w", a, b)
        made[f"dense/{name}/b"] = np.zeros(b, np.float32)

    def add_norm(name, width):
        made[f"norm/{name}/scale"] = np.ones(width, np.float32)
        made[f"norm/{name}/shift"] = np.zeros(width, np.float32)

    if model in _SIZES:
        for i, (a, b) in enumerate(itertools.pairwise(_SIZES[model])):
            add_dense(i, a, b)
    elif model == "cnn":
        for i, (a, b) in enumerate(_FILTERS):
            add(f"conv/{i}", 3, 3, a, b)
            add_norm(i, b)
        add_dense("last", _FILTERS[-1][1], 10)
    else:
        made["embed/words"] = random.standard_normal((VOCABULARY, WIDTH), np.float32)
        for i in range(LAYERS):
            add_norm(f"{i}a", WIDTH)
            add_dense(f"{i}qkv", WIDTH, 3 * WIDTH)
            add_dense(f"{i}out", WIDTH, WIDTH)
            add_norm(f"{i}b", WIDTH)
            add_dense(f"{i}up", WIDTH, 4 * WIDTH)
            add_dense(f"{i}down", 4 * WIDTH, WIDTH)
        add_dense("last", WIDTH, VOCABULARY)
    return made


def batch(model, size):
    """Returns a global batch: inputs and labels."""
    random = np.random.default_rng(1)
    if model == "transformer":
        words = random.integers(0, VOCABULARY, (size, SEQUENCE + 1)).astype(np.int32)
        return words[:, :-1], words[:, 1:]
    shape = (16, 16, 3) if model == "cnn" else (784,)
    labels = random.integers(0, 10, size).astype(np.int32)
    return random.random((size, *shape), np.float32), labels


def scores(ops, model, p, x):
    """Returns the logits of a batch."""

    def dense(x, name):
        return ops.dense(x, p[f"dense/{name}/w"], p[f"dense/{name}/b"])

    def norm(normalize, x, name):
        return normalize(x, p[f"norm/{name}/scale"], p[f"norm/{name}/shift"])

    if model in _SIZES:
        last = len(_SIZES[model]) - 2
        for i in range(last):
            x = ops.relu(dense(x, i))
        return dense(x, last)
    if model == "cnn":
        for i in range(len(_FILTERS)):
            x = ops.conv(x, p[f"conv/{i}"], 1 if i == 0 else 2)
            x = ops.relu(norm(ops.batch_norm, x, i))
        return dense(ops.mean_pool(x), "last")
    x = ops.embed(p["embed/words"], x)
    for i in range(LAYERS):
        heads = ops.split_heads(dense(norm(ops.layer_norm, x, f"{i}a"), f"{i}qkv"))
        x = x + dense(ops.merge_heads(ops.attention(*heads)), f"{i}out")
        hidden = ops.relu(dense(norm(ops.layer_norm, x, f"{i}b"), f"{i}up"))
        x = x + dense(hidden, f"{i}down")
    return dense(x, "last")
