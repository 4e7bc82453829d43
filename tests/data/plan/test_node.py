"""Plans: what they print, and what is in them."""

from mirrax.data import Dataset
from mirrax.data.nodes.batching import Batch
from mirrax.data.nodes.sources import Range
from mirrax.data.plan.node import find


def test_explain_prints_the_last_step_first():
    dataset = Dataset.range(9).shuffle(4, seed=1).batch(2)
    assert dataset.explain().splitlines() == [
        "Batch(size=2, drop_remainder=False)",
        "  Shuffle(buffer_size=4, seed=1, reshuffle=True)",
        "    Range(start=0, step=1, cardinality=9)",
    ]


def test_explain_indents_every_input():
    dataset = Dataset.zip(Dataset.range(2), Dataset.range(3).batch(1))
    lines = dataset.explain().splitlines()
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 2, 2, 4]


def test_find_gives_all_nodes_of_a_kind():
    dataset = Dataset.range(2).concatenate(Dataset.range(3)).batch(2)
    assert [node.cardinality for node in find(dataset.plan, Range)] == [2, 3]
    assert find(dataset.plan, Batch) == [dataset.plan]


def test_an_open_stream_leaves_the_plan_as_it_was():
    plan = Dataset.range(3).plan
    plan.open((0,)).take(3)
    assert plan.open((0,)).take(3)[0].tolist() == [0, 1, 2]
