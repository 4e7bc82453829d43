"""Keras models whose steps are written as for TensorFlow: `train_step(self, data)`.

Keras on JAX passes the variables to a step and gets them back. The steps here read and
assign variables instead; `tf.function` compiles them.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf.distribute.default_strategy import get_strategy
from mirrax.tf.functions.function import GradientTape, function
from mirrax.tf.keras_support import internals

Step = Callable[[Any], Any]

_strategies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@functools.cache
def install(model_type: type) -> None:
    """Lets models of Keras have steps of TensorFlow's kind, and their strategy."""
    trainer = trainer_of(model_type)
    wrap(trainer, "__init__", _remember_strategy)
    model_type.distribute_strategy = property(_strategy_of)  # type: ignore[attr-defined]
    for kind, default in _DEFAULTS.items():
        wrap(trainer, f"make_{kind}_function", functools.partial(_make, kind))
        # For `super().train_step(data)` in such a step.
        wrap(trainer, f"{kind}_step", functools.partial(_call_default, default))
    wrap(trainer, "compute_loss_and_updates", _sum_loss)
    wrap(trainer, "get_metrics_result", _read_results)
    wrap(trainer, internals.BUILD_ON_A_BATCH, _build)


def trainer_of(model_type: type) -> type:
    """Returns the class in which Keras defines `fit`."""
    return next(base for base in model_type.__mro__ if "fit" in vars(base))


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replaces a method by a function that gets it as its first argument."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replacement(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(owner, name, replacement)


def _remember_strategy(original: Any, model: Any) -> None:
    original(model)
    if mirrax.has_strategy():
        _strategies[model] = mirrax.get_strategy()


def _strategy_of(model: Any) -> Any:
    """The strategy in whose scope the model was created; else the current one."""
    return _strategies.get(model) or get_strategy()


def _read_results(original: Any, model: Any) -> Any:
    """Returns the values of metrics whose `result` returns a variable."""
    import keras

    results = original(model)
    return {
        name: value.value if isinstance(value, keras.Variable) else value
        for name, value in results.items()
    }


def _sum_loss(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Computes the sum of a loss that has a value for each row, for its gradient."""
    loss, others = original(*args, **kwargs)
    return jnp.sum(loss), others


def _build(original: Any, model: Any, *args: Any, **kwargs: Any) -> None:
    """Builds a model by calling it, unless only its steps know how, as in a GAN."""
    import keras

    has_call = type(model).call is not keras.Model.call
    if has_call or _tensorflow_step(model, "train") is None:
        original(model, *args, **kwargs)


def _call_default(
    default: Callable[..., Any], original: Any, model: Any, *args: Any, **kwargs: Any
) -> Any:
    is_of_tensorflow = len(args) + len(kwargs) == 1
    return (default if is_of_tensorflow else original)(model, *args, **kwargs)


def _make(kind: str, original: Any, model: Any, force: bool = False) -> Any:
    """Makes the function that Keras calls for each batch."""
    step = _tensorflow_step(model, kind)
    name = f"{kind}_function"
    if step is None:
        return original(model, force)
    if getattr(model, name) is None or force:
        compiled = step if model.run_eagerly else function(step)

        def call(state: Any, iterator: Any) -> Any:
            state = internals.take_state(model, kind, state)
            result = None
            for number in range(model.steps_per_execution):
                try:
                    data = next(iterator)
                except StopIteration:
                    if number == 0:
                        raise
                    break
                result = _run(compiled, data, kind == "predict")
            return result, state

        setattr(model, name, call)
    return getattr(model, name)


def _run(step: Step, data: Any, is_prediction: bool) -> Any:
    """Runs a step on each replica's part of a batch.

    Returns the mean of the logs, or the predictions one after another.
    """
    strategy = mirrax.get_strategy()
    if strategy.num_replicas_in_sync == 1:
        return strategy.run(step, (data,))
    parts = strategy.experimental_distribute_values_from_function(
        lambda context: jax.tree.map(lambda leaf: _part(leaf, context), data)
    )
    results = strategy.run(step, (parts,))
    if is_prediction:
        return strategy.gather(results, axis=0)
    return strategy.reduce("MEAN", results, axis=None)


def _part(array: jax.Array, context: mirrax.ValueContext) -> Any:
    """Returns one replica's rows; the first replicas take the remainder."""
    if not array.ndim:
        return array
    index, rows = context.replica_id_in_sync_group, array.shape[0]
    base, extra = divmod(rows, context.num_replicas_in_sync)
    start = index * base + min(index, extra)
    stop = start + base + (index < extra)
    for shard in array.addressable_shards:
        first, last, _ = shard.index[0].indices(rows)
        if first <= start and stop <= last:
            return shard.data[start - first : stop - first]
    raise AssertionError(f"Rows {start} to {stop} are not on this worker.")


def _tensorflow_step(model: Any, kind: str) -> Step | None:
    """Returns a step that takes only the data; None if the model is for JAX."""
    step = getattr(model, f"{kind}_step")
    try:
        inspect.signature(step).bind("state", "data")
    except TypeError:
        return step
    is_own = getattr(type(model), f"{kind}_step").__module__.startswith("keras.")
    if is_own and _holds_variables(model):
        return functools.partial(_DEFAULTS[kind], model)
    return None


def _holds_variables(model: Any) -> bool:
    """Returns whether a layer has a `tf.Variable`, which Keras does not track."""
    return any(
        isinstance(leaf, mirrax.Variable)
        for layer in internals.layers_of(model)
        for value in vars(layer).values()
        for leaf in (value if isinstance(value, list | tuple) else (value,))
    )


def _unpack(data: Any) -> Any:
    import keras

    return keras.utils.unpack_x_y_sample_weight(data)


def _train(model: Any, data: Any) -> Any:
    x, y, sample_weight = _unpack(data)
    with GradientTape() as tape:
        y_pred = internals.call(model, x, training=True)
        loss = internals.compute_loss(model, x, y, y_pred, sample_weight)
        scaled = loss if model.optimizer is None else model.optimizer.scale_loss(loss)
    if model.trainable_variables:
        gradients = tape.gradient(scaled, model.trainable_variables)
        model.optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
    internals.track_loss(model, loss, x)
    return model.compute_metrics(x, y, y_pred, sample_weight)


def _test(model: Any, data: Any) -> Any:
    x, y, sample_weight = _unpack(data)
    y_pred = internals.call(model, x, training=False)
    loss = internals.compute_loss(model, x, y, y_pred, sample_weight, training=False)
    internals.track_loss(model, loss, x)
    return model.compute_metrics(x, y, y_pred, sample_weight)


def _predict(model: Any, data: Any) -> Any:
    x, _, _ = _unpack(data)
    return internals.call(model, x, training=False)


_DEFAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "train": _train,
    "test": _test,
    "predict": _predict,
}
