import warnings

import pytest

import mirrax
from mirrax import CollectiveCommunication, CommunicationOptions
from mirrax.strategy.multi_worker_mirrored_strategy import check_choice


@pytest.mark.parametrize(
    ("kind", "choice", "used"),
    [
        ("CPU", "NCCL", "Gloo"),
        ("GPU", "RING", "NCCL"),
        ("TPU", "RING", "the TPU's own network"),
        ("TPU", "NCCL", "the TPU's own network"),
    ],
)
def test_choice_that_has_no_effect_is_a_warning(kind, choice, used):
    with pytest.warns(UserWarning, match=f"over {used}. Received: .*={choice}"):
        check_choice(CollectiveCommunication[choice], kind)


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("CPU", "AUTO"),
        ("CPU", "RING"),
        ("GPU", "AUTO"),
        ("GPU", "NCCL"),
        ("TPU", "AUTO"),
    ],
)
def test_choice_that_is_what_jax_does_is_accepted(kind, choice):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_choice(CollectiveCommunication[choice], kind)


def test_strategy_says_that_a_cpu_has_no_nccl():
    options = CommunicationOptions(implementation="NCCL")
    with pytest.warns(UserWarning, match="CPU devices communicate over Gloo"):
        strategy = mirrax.MultiWorkerMirroredStrategy(communication_options=options)
    assert strategy.run(lambda: 2.0) == 2.0
