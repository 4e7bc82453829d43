"""What `distribute_dataset` and `map` return."""

from __future__ import annotations

from typing import Any

from mirrax.tf.data.input_iterator import InputIterator


class PerDeviceDataset:
    """A dataset whose elements go to the towers in turn."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __iter__(self) -> Any:
        return iter(self._dataset)

    def make_one_shot_iterator(self) -> InputIterator:
        return InputIterator(self._dataset)

    def make_initializable_iterator(self) -> InputIterator:
        return InputIterator(self._dataset)


class MapOutput:
    """The results of `map` on one device."""

    def __init__(self, results: list[Any]) -> None:
        self._results = results

    def get(self) -> list[Any]:
        return self._results
