"""The specs of datasets and of optional elements."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class DatasetSpec:
    """`tf.data.DatasetSpec`: the spec of a dataset with such elements."""

    element_spec: Any
    dataset_shape: Any = ()


@dataclasses.dataclass(frozen=True)
class OptionalSpec:
    """`tf.OptionalSpec`: the spec of such an element, or of none."""

    element_spec: Any
