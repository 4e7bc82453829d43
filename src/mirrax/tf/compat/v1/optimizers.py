"""Optimizers of version 1, which sum the gradients of all replicas."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import mirrax
from mirrax.tf.functions.function import GradientTape
from mirrax.tf.namespaces.exports import export
from mirrax.tf.tensors.tensor import tensor
from mirrax.tf.variables.variable_methods import make_variable

_PRIVATE = frozenset(globals())


class Optimizer(abc.ABC):
    """Updates variables from gradients.

    Subclasses are dataclasses, with TensorFlow's arguments in their order, and
    implement `_change`.

    Args:
        learning_rate: A number, a tensor, or a function that returns one.
        use_locking: Ignored.
        name: The prefix of the names of the optimizer's variables.
    """

    learning_rate: Any
    use_locking: bool
    name: str

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    def __post_init__(self) -> None:
        self._slots: dict[Any, dict[str, Any]] = {}
        self._observers: list[Callable[[], bool]] = []

    def get_name(self) -> str:
        return self.name

    def minimize(
        self, loss: Any, global_step: Any = None, var_list: Any = None, **_: Any
    ) -> None:
        """Computes the gradients of `loss()` and applies them."""
        self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

    def compute_gradients(self, loss: Any, var_list: Any = None, **_: Any) -> list[Any]:
        """Returns pairs of a gradient and its variable; by default of all trainable.

        Inside `run` the loss is the mean over replicas, as in TensorFlow 1.
        """
        if not callable(loss):
            raise RuntimeError(
                "`loss` must be a function without arguments, because there are no "
                f"graphs. Received: {loss!r}. Use `tf.GradientTape` and "
                "`apply_gradients` for a loss that is a tensor."
            )
        variables = jax.tree.leaves(
            var_list() if callable(var_list) else var_list,
            is_leaf=lambda x: isinstance(x, mirrax.Variable),
        )
        with GradientTape() as tape:
            tape.watch(variables)
            value = loss()
        if var_list is None:
            variables = list(tape.watched_variables())
        return list(zip(tape.gradient(value, variables), variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Any = None
    ) -> None:
        """Updates the variables; inside `run`, gradients are summed over replicas."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError(
                "No gradients provided for any variable. Received: only gradients that "
                "are None. Check that the loss depends on the variables."
            )
        gradients, variables = zip(*pairs, strict=True)
        context = mirrax.get_replica_context()
        if context is None:
            raise RuntimeError(
                "`apply_gradients` must be called inside `strategy.run`, where it sums "
                "the gradients of all replicas. Received: a call in cross-replica "
                "context. Move it into the function given to `run`."
            )
        if context.num_replicas_in_sync == 1:
            self._apply(gradients, variables, global_step)
            return

        def merged(strategy: Any, *sums: Any) -> None:
            pairs = list(zip(sums, variables, strict=True))
            summed = strategy.extended.batch_reduce_to("SUM", pairs)
            self._apply([tensor(x) for x in summed], variables, global_step)

        context.merge_call(merged, args=gradients)

    def _apply(self, gradients: Any, variables: Any, global_step: Any) -> None:
        rate = self.learning_rate
        rate = tensor(rate() if callable(rate) else rate)
        for gradient, variable in zip(gradients, variables, strict=True):
            given = tensor(gradient)
            value = tensor(variable)
            changed = self._change(variable, value, given, rate.astype(value.dtype))
            limit = getattr(variable, "constraint", None)
            limited = changed if limit is None else limit(changed)
            variable.assign(limited.astype(value.dtype))
        if global_step is not None:
            global_step.assign_add(1)

    @abc.abstractmethod
    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        """Returns the new value of a variable, and updates its slots."""

    def get_slot_names(self) -> list[str]:
        return sorted({name for slots in self._slots.values() for name in slots})

    def get_slot(self, var: Any, name: str) -> Any:
        """Returns a slot variable of a variable; None if there is none."""
        return self._slots.get(var.ref(), {}).get(name)

    def variables(self) -> list[Any]:
        return [x for slots in self._slots.values() for x in slots.values()]

    def checkpoint_contents(self) -> dict[str, Any]:
        """Returns what a checkpoint saves, named in the order of the variables."""
        return {
            f"{name}_{index}": slot
            for index, slots in enumerate(self._slots.values())
            for name, slot in slots.items()
        }

    def when_contents_change(self, then: Callable[[], bool]) -> None:
        """Calls `then` when a slot is created, until it returns True."""
        self._observers.append(then)

    def _slot(
        self,
        variable: Any,
        name: str,
        start: float = 0.0,
        shape: Any = None,
        dtype: Any = None,
    ) -> Any:
        slots = self._slots.setdefault(variable.ref(), {})
        if name not in slots:
            size = variable.shape if shape is None else shape
            slots[name] = make_variable(
                lambda: jnp.full(size, start, dtype or variable.dtype),
                trainable=False,
                name=f"{self.name}/{name}",
            )
            self._observers = [then for then in self._observers if not then()]
        return slots[name]

    def _average(
        self, variable: Any, name: str, value: Any, decay: float, start: float = 0.0
    ) -> Any:
        """Updates a moving average in a slot; returns the new average."""
        slot = self._slot(variable, name, start)
        average = tensor(slot) * decay + value * (1 - decay)
        slot.assign(average)
        return average


@dataclasses.dataclass(eq=False, repr=False)
class GradientDescentOptimizer(Optimizer):
    """Gradient descent."""

    learning_rate: Any
    use_locking: bool = False
    name: str = "GradientDescent"

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        return value - rate * gradient


@dataclasses.dataclass(eq=False, repr=False)
class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum."""

    learning_rate: Any
    momentum: Any
    use_locking: bool = False
    name: str = "Momentum"
    use_nesterov: bool = False

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        slot = self._slot(variable, "momentum")
        momentum = self.momentum() if callable(self.momentum) else self.momentum
        total = tensor(slot) * momentum + gradient
        slot.assign(total)
        ahead = gradient + momentum * total if self.use_nesterov else total
        return value - rate * ahead


@dataclasses.dataclass(eq=False, repr=False)
class AdagradOptimizer(Optimizer):
    """Adagrad: scales steps by the sum of squared gradients."""

    learning_rate: Any
    initial_accumulator_value: float = 0.1
    use_locking: bool = False
    name: str = "Adagrad"

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        slot = self._slot(variable, "accumulator", self.initial_accumulator_value)
        squares = tensor(slot) + jnp.square(gradient)
        slot.assign(squares)
        return value - rate * gradient / jnp.sqrt(squares)


@dataclasses.dataclass(eq=False, repr=False)
class RMSPropOptimizer(Optimizer):
    """RMSProp: scales steps by the moving average of squared gradients."""

    learning_rate: Any
    decay: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-10
    use_locking: bool = False
    centered: bool = False
    name: str = "RMSProp"

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        squares = jnp.square(gradient)
        spread = self._average(variable, "rms", squares, self.decay, start=1.0)
        if self.centered:
            mean = self._average(variable, "mg", gradient, self.decay)
            spread -= jnp.square(mean)
        slot = self._slot(variable, "momentum")
        step = rate * gradient / jnp.sqrt(spread + self.epsilon)
        step = tensor(slot) * self.momentum + step
        slot.assign(step)
        return value - step


@dataclasses.dataclass(eq=False, repr=False)
class AdamOptimizer(Optimizer):
    """Adam."""

    learning_rate: Any = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    use_locking: bool = False
    name: str = "Adam"

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        # 16 bits cannot count to more than 2048.
        count = self._slot(variable, "step", shape=(), dtype=jnp.float32)
        step = tensor(count) + 1
        count.assign(step)
        mean = self._average(variable, "m", gradient, self.beta1)
        spread = self._average(variable, "v", jnp.square(gradient), self.beta2)
        rate = rate * jnp.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
        return value - rate * mean / (jnp.sqrt(spread) + self.epsilon)


@dataclasses.dataclass(eq=False, repr=False)
class AdadeltaOptimizer(Optimizer):
    """Adadelta: scales steps by the averages of squared steps and gradients."""

    learning_rate: Any = 0.001
    rho: float = 0.95
    epsilon: float = 1e-8
    use_locking: bool = False
    name: str = "Adadelta"

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        spread = self._average(variable, "accum", jnp.square(gradient), self.rho)
        steps = tensor(self._slot(variable, "accum_update"))
        step = jnp.sqrt((steps + self.epsilon) / (spread + self.epsilon)) * gradient
        self._average(variable, "accum_update", jnp.square(step), self.rho)
        return value - rate * step


@dataclasses.dataclass(eq=False, repr=False)
class FtrlOptimizer(Optimizer):
    """Follow the regularized leader, with L1 and L2 regularization."""

    learning_rate: Any
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    use_locking: bool = False
    name: str = "Ftrl"
    accum_name: str | None = None
    linear_name: str | None = None
    l2_shrinkage_regularization_strength: float = 0.0
    beta: float | None = None

    def _change(self, variable: Any, value: Any, gradient: Any, rate: Any) -> Any:
        squares = self._slot(variable, "accum", self.initial_accumulator_value)
        linear = self._slot(variable, "linear")
        old, new = tensor(squares), tensor(squares) + jnp.square(gradient)
        power = -self.learning_rate_power
        growth = (new**power - old**power) / rate
        pull = gradient + 2 * self.l2_shrinkage_regularization_strength * value
        total = tensor(linear) + pull - growth * value
        squares.assign(new)
        linear.assign(total)
        curvature = (new**power + (self.beta or 0.0)) / rate
        curvature += 2 * self.l2_regularization_strength
        l1 = self.l1_regularization_strength
        return (jnp.clip(total, -l1, l1) - total) / curvature


export(globals(), _PRIVATE)
