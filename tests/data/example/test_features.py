"""The records that say what to parse."""

import numpy as np
import pytest

from mirrax.data.example import FixedLenFeature, VarLenFeature


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: VarLenFeature(np.int32), ValueError, "float32, int64 or bytes"),
        (lambda: VarLenFeature("nonsense"), ValueError, "float32, int64 or bytes"),
        (lambda: FixedLenFeature((), None), ValueError, "float32, int64 or bytes"),
        (lambda: FixedLenFeature((None,), bytes), ValueError, "must be known"),
    ],
)
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
