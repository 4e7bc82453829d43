"""Numbers of elements: counted and promised."""

import pytest

from mirrax.data import Dataset
from mirrax.errors import InvalidArgumentError
from tests.data.plans import values


def test_a_promised_number_of_elements_is_known():
    dataset = Dataset.range(5).filter(lambda x: True).assert_cardinality(5)
    assert (len(dataset), values(dataset)) == (5, [0, 1, 2, 3, 4])


@pytest.mark.parametrize(
    ("count", "found"), [(4, "at least 5, for 4"), (6, "only 5, for 6")]
)
def test_a_promised_number_of_elements_is_checked(count, found):
    with pytest.raises(InvalidArgumentError, match=f"Received: {found}"):
        list(Dataset.range(5).assert_cardinality(count))


def test_enumerate_counts_from_a_start():
    dataset = Dataset.range(5, 8).enumerate(2)
    assert [(int(i), int(x)) for i, x in dataset] == [(2, 5), (3, 6), (4, 7)]
