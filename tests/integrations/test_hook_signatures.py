"""Hooks accept whatever the functions accept that they replace."""

import functools
import inspect
import sys
import types

import keras
import pytest

from mirrax.integrations.flax import hooks as flax_hooks
from tests.integrations.keras.programs import SEED


def keras_hooks():
    """Returns each hook of Keras' functions, with the function that it replaces."""
    modules = [m for name, m in sys.modules.items() if name.startswith("keras")]
    classes = [x for m in modules for x in vars(m).values() if isinstance(x, type)]
    replacements = {
        found
        for owner in [*modules, *classes]
        for found in vars(owner).values()
        if isinstance(found, types.FunctionType)
        and found.__code__.co_name == "replacement"
    }
    for replacement in replacements:
        parts = inspect.getclosurevars(replacement).nonlocals
        yield functools.partial(parts["around"], parts["original"]), parts["original"]


def flax_methods():
    """Returns each hook of Flax' methods, with the method that it replaces."""
    for (_, _, original), hook in flax_hooks._HOOKS:
        if inspect.isfunction(original):
            yield hook, original


def calls_of(original):
    """Yields arguments of each kind that a function takes."""
    parameters = list(inspect.signature(original).parameters.values())
    rest = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        names.append("anything")
    only_named = dict.fromkeys(names)
    yield (None,) * (1 + len(rest)), only_named
    yield (None,), {**dict.fromkeys(p.name for p in rest), **only_named}
    needed = [p for p in rest if p.default is p.empty]
    yield (None,) * (1 + len(needed)), {}


def refused_calls(pairs):
    """Returns the calls that hooks refuse, although the originals accept them."""
    refused = []
    for hook, original in pairs:
        signature = inspect.signature(hook)
        for args, kwargs in calls_of(original):
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                refused.append(f"{original.__qualname__}{signature}: {error}")
    return refused


def test_hooks_accept_what_the_originals_accept():
    pairs = [*keras_hooks(), *flax_methods()]
    assert len(pairs) > 30
    assert refused_calls(pairs) == []


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: keras.random.uniform(x.shape),
        keras.random.shuffle,
        lambda x: keras.random.dropout(x, 0.5),
    ],
    ids=["uniform", "shuffle", "dropout"],
)
def test_random_functions_of_keras_need_no_seed(draw):
    keras.utils.set_random_seed(SEED)
    assert draw(keras.ops.ones((4, 3))).shape == (4, 3)
