"""`tf.train.ExponentialMovingAverage`."""

from __future__ import annotations

from typing import Any

from mirrax.tf.tensors import tensor
from mirrax.tf.variable_kinds import make_variable


class ExponentialMovingAverage:
    """Keeps averages of variables in which older values count less and less.

    Args:
        decay: How much of the old average stays at each step.
        num_updates: How many steps there were; the first ones then decay faster.
        zero_debias: Not supported; averages start with the values of the variables.
        name: What the averages are called.

    >>> weight = make_variable(1.0)
    >>> average = ExponentialMovingAverage(0.5)
    >>> average.apply([weight])
    >>> _ = weight.assign(3.0)
    >>> average.apply([weight])
    >>> float(average.average(weight))
    2.0
    """

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        if zero_debias:
            raise NotImplementedError(
                "Averages start with the values of the variables, so there is nothing "
                "to correct. Received: zero_debias=True. Leave it out."
            )
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Any = None) -> None:
        """Takes the values of the variables into their averages."""
        for variable in var_list:
            kept = self._averages.get(variable.ref())
            if kept is None:
                kept = self._averages[variable.ref()] = make_variable(
                    variable.read_value(),
                    trainable=False,
                    name=self.average_name(variable),
                )
            share = 1 - self._current_decay()
            kept.assign(tensor(kept) - share * (tensor(kept) - tensor(variable)))

    def average(self, var: Any) -> Any:
        """Returns the variable that holds an average; None before `apply`."""
        return self._averages.get(var.ref())

    def average_name(self, var: Any) -> str:
        return f"{var.name.removesuffix(':0')}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        return {kept.name.removesuffix(":0"): kept for kept in self._averages.values()}

    def _current_decay(self) -> Any:
        if self._num_updates is None:
            return self._decay
        count = tensor(self._num_updates)
        fast = (1.0 + count) / (10.0 + count)
        return tensor(self._decay).clip(max=fast)
