"""`tf.train.ExponentialMovingAverage`."""

from __future__ import annotations

from typing import Any

from mirrax.tf.tensors.tensor import tensor
from mirrax.tf.variables.variable_methods import make_variable


class ExponentialMovingAverage:
    """Maintains exponentially decaying averages of variables.

    Args:
        decay: The weight of the old average at each step.
        num_updates: The number of steps so far; early steps then decay faster.
        zero_debias: Without effect: averages start at the values of the variables.
        name: The suffix of the names of the averages.

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
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Any = None) -> None:
        """Updates the averages from the values of the variables."""
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
        """Returns the variables by the names that their averages are saved under."""
        if moving_avg_variables is not None:
            return {self.average_name(var): var for var in moving_avg_variables}
        return {kept.name.removesuffix(":0"): kept for kept in self._averages.values()}

    def _current_decay(self) -> Any:
        if self._num_updates is None:
            return self._decay
        count = tensor(self._num_updates)
        fast = (1.0 + count) / (10.0 + count)
        return tensor(self._decay).clip(max=fast)
