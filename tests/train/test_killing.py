import random

import pytest

from tests.train.killing import kill_while_saving


@pytest.mark.parametrize("asynchronous", [False, True], ids=["waiting", "background"])
def test_killed_process_leaves_its_newest_whole_checkpoint(tmp_path, asynchronous):
    moments = random.Random(int(asynchronous))
    numbers = [
        kill_while_saving(tmp_path, moments.uniform(0.2, 0.6), asynchronous)
        for _ in range(2)
    ]
    assert 0 < numbers[0] < numbers[1]
