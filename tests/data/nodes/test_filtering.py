"""The elements for which a function is true."""

import itertools

from hypothesis import given

from mirrax.data import Dataset
from tests.data.plans import counts, quick, sizes, values


@quick
@given(count=counts, divisor=sizes, size=sizes)
def test_filter_keeps_what_is_true(count, divisor, size):
    dataset = Dataset.range(count).filter(lambda x: x % divisor == 0).batch(size)
    assert list(itertools.chain(*values(dataset))) == list(range(0, count, divisor))


def test_filter_that_keeps_nothing_is_empty():
    assert list(Dataset.range(9).filter(lambda x: False).batch(2)) == []
