"""What workers of a cluster run in tests."""

import json
import os

from mirrax import tf


def count_towers():
    """Joins the cluster through `configure`, as high-level libraries did."""
    config = json.loads(os.environ["TF_CONFIG"])
    distribution = tf.contrib.distribute.MirroredStrategy()
    distribution.configure(
        cluster_spec=config["cluster"],
        task_type=config["task"]["type"],
        task_id=config["task"]["index"],
    )

    def tower():
        number = tf.constant(1.0) * (tf.get_tower_context().tower_id + 1)
        merge = lambda strategy, value: strategy.reduce(  # noqa: E731
            tf.VariableAggregation.SUM, value, value
        )
        return tf.get_tower_context().merge_call(merge, number)

    total = distribution.call_for_each_tower(tower)
    numbers = [float(x) for x in distribution.unwrap(total)]
    return [distribution.num_towers, distribution.should_checkpoint, numbers]


def configure_too_late():
    """Asks for a cluster after the strategy was used."""
    distribution = tf.contrib.distribute.MirroredStrategy(devices=["CPU:0"])
    distribution.call_for_each_tower(lambda: None)
    try:
        distribution.configure(cluster_spec={"worker": ["a:1", "b:1"]})
    except RuntimeError as error:
        return str(error)
    return ""
