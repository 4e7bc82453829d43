"""What notebooks show of values."""

import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.html_tables import html_table


def shown(kind, strategy):
    with strategy.scope():
        variable = mirrax.Variable(np.arange(100.0), name="<w>")
    dataset = mirrax.data.Dataset.range(4).map(lambda x: x + 1).batch(2)
    values = {
        "strategy": (strategy, ["MirroredStrategy", "CPU:1"]),
        "variable": (variable, ["&lt;w&gt;", "float32[100]", " ... "]),
        "plain": (mirrax.Variable(1.5, name="b"), ["Variable b", "1.5"]),
        "per_replica": (
            mirrax.PerReplica(("<a>", jnp.ones(2))),
            ["&lt;a&gt;", "[1. 1."],
        ),
        "dataset": (dataset, ["Range(", "Map(", "Batch(size=2"]),
        "plan": (dataset.plan, ["Range(", "Map(", "Batch(size=2"]),
        "distributed": (
            strategy.experimental_distribute_dataset(dataset),
            ["DistributedDataset", "TensorSpec"],
        ),
    }
    return values[kind]


@pytest.mark.parametrize(
    "kind",
    ["strategy", "variable", "plain", "per_replica", "dataset", "plan", "distributed"],
)
def test_notebooks_get_an_escaped_table(two_replicas, kind):
    value, wanted = shown(kind, two_replicas)
    text = value._repr_html_()
    assert text.startswith("<table>")
    assert text.endswith("</table>")
    assert "<w>" not in text
    assert "<a>" not in text
    for part in wanted:
        assert part in text


def test_long_tables_are_cut():
    text = html_table("many", ["n"], [[i] for i in range(100)])
    assert "... 36 more" in text
    assert ">99</td>" not in text
