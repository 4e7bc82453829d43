"""What the workers of the tests do; each function runs in fresh interpreters."""

import os
import resource
import sys
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import mirrax
from mirrax.data import Dataset


def plain(value):
    """Returns arrays as lists, and distributed values as the list of local parts."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, mirrax.PerReplica):
        return [plain(part) for part in value.values]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return np.asarray(value).tolist()


def outcome_of(function):
    """Returns the name and the text of what a function raises."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


def variables():
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index
    on_read = mirrax.VariableSynchronization.ON_READ
    with strategy.scope():
        mirrored = mirrax.Variable(float(worker + 3))
        key = mirrax.random.Generator(seed=worker)
        summed = mirrax.Variable(
            1.0, synchronization=on_read, aggregation=mirrax.VariableAggregation.SUM
        )
        aggregated = {
            name: mirrax.Variable(0.0, aggregation=mirrax.VariableAggregation[name])
            for name in ("SUM", "MEAN", "ONLY_FIRST_REPLICA")
        }
    first = mirrax.VariableAggregation.ONLY_FIRST_REPLICA
    with strategy.scope():
        chosen = mirrax.Variable(0.0, synchronization=on_read, aggregation=first)

    def write():
        context = mirrax.get_replica_context()
        number = jnp.float32(context.replica_id_in_sync_group) + 1
        summed.assign_add(number)
        chosen.assign(number * 10)
        for variable in aggregated.values():
            variable.assign(number)

    results = {}
    for name, fn in (("eager", write), ("compiled", mirrax.function(write))):
        strategy.run(fn)
        results[name] = {key: plain(v) for key, v in aggregated.items()}
        results[name] |= {"summed": plain(summed), "chosen": plain(chosen)}
    return results | {
        "initial": plain(mirrored),
        "key": plain(key.state),
        "unequal_assign": outcome_of(lambda: mirrored.assign(float(worker))),
        "unequal_write": outcome_of(
            lambda: strategy.run(lambda: mirrored.assign(1.0 * worker))
        ),
        "still_usable": plain(mirrored.assign(7.0).values),
    }


def collectives():
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index

    def meet(scale):
        context = mirrax.get_replica_context()
        x = jnp.float32(context.replica_id_in_sync_group) + 1
        merged = context.merge_call(lambda s, v: s.num_replicas_in_sync, (x,))
        return {
            "sum": context.all_reduce("SUM", x),
            "mean": context.all_reduce("MEAN", [x * 10, jnp.stack([x, 2 * x])]),
            "gathered": context.all_gather(x[None], axis=0),
            "own": x,
            "merged": merged,
            "scaled": context.all_reduce("SUM", x * scale),
            "by_worker": context.all_reduce("SUM", jnp.float32(worker)),
        }

    compiled = mirrax.function(meet)
    results = {}
    for name, fn in (("eager", meet), ("compiled", compiled)):
        found = strategy.run(fn, args=(np.float32(2),))
        results[name] = plain(strategy.experimental_local_results(found))
        results[f"{name}_reduced"] = plain(strategy.reduce("SUM", found["own"], None))
        # A plain argument may be another one on each worker.
        own = strategy.run(fn, args=(np.float32(worker),))
        results[f"{name}_own_scale"] = plain(
            strategy.experimental_local_results(own["scaled"])
        )
    values = strategy.experimental_distribute_values_from_function
    rows = values(lambda c: jnp.full((1, 2), float(c.replica_id_in_sync_group)))
    uneven = values(lambda c: jnp.arange(2.0 + c.replica_id_in_sync_group % 2))
    return results | {
        "gather": plain(strategy.gather(rows, axis=0)),
        "gather_columns": plain(strategy.gather(rows, axis=1)),
        "gather_uneven": plain(strategy.gather(uneven, axis=0)),
        "mean_uneven": plain(strategy.reduce("MEAN", uneven, axis=0)),
        "unequal": outcome_of(lambda: strategy.reduce("SUM", uneven, axis=None)),
        "devices": list(strategy.extended.worker_devices),
        "chief": strategy.extended.should_checkpoint,
    }


def _warnings_of(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(each.message) for each in caught]


def mismatches():
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index

    def diverging(x):
        return jnp.sin(x) if worker else jnp.cos(x)

    def in_a_loop(x):
        return jax.lax.fori_loop(0, 3, lambda _, y: y + float(worker), x)

    outside = mirrax.function(lambda x: strategy.run(lambda y: y, args=(x,)))
    return {
        "program": outcome_of(
            lambda: strategy.run(mirrax.function(diverging), args=(np.float32(1),))
        ),
        "constant_in_a_loop": outcome_of(
            lambda: strategy.run(mirrax.function(in_a_loop), args=(np.float32(1),))
        ),
        "argument": outcome_of(lambda: outside(np.float32(worker))),
        "dataset": outcome_of(
            lambda: strategy.experimental_distribute_dataset(
                Dataset.range(4 + worker).batch(2)
            )
        ),
        "arrays": _warnings_of(
            lambda: strategy.experimental_distribute_dataset(
                Dataset.from_tensor_slices(np.full(4, worker)).batch(2)
            )
        ),
        "after": plain(strategy.run(mirrax.function(lambda: jnp.float32(5)))),
    }


def other_order():
    """Runs known programs in another order on each worker."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index

    @mirrax.function
    def add_up():
        return mirrax.get_replica_context().all_reduce("SUM", jnp.ones(3))

    @mirrax.function
    def average():
        return mirrax.get_replica_context().all_reduce("MEAN", jnp.ones(3))

    def run_in_turn(functions):
        for function in functions:
            strategy.run(function)

    run_in_turn([add_up, average])
    order = [average, add_up] if worker else [add_up, average]
    return outcome_of(lambda: run_in_turn(order * 10))


def unseeded_loader():
    """Reads data that each worker shuffles in its own way, then in a common one."""
    strategy = mirrax.MultiWorkerMirroredStrategy()

    def outcome(order):
        def batches():
            yield from np.random.default_rng(order).permutation(64).reshape(8, 8)

        distributed = strategy.experimental_distribute_dataset(Batches(batches))

        @mirrax.function
        def total(rows):
            return mirrax.get_replica_context().all_reduce("SUM", rows.sum())

        return outcome_of(
            lambda: [strategy.run(total, (rows,)) for rows in distributed]
        )

    return outcome(7), outcome(strategy.topology.worker_index)


class Batches:
    """An iterable that is read anew in each epoch, like a loader of PyTorch."""

    def __init__(self, begin):
        self._begin = begin

    def __iter__(self):
        return self._begin()


def eager_mismatch():
    """Combines values in another way on each worker."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    op = "MEAN" if strategy.topology.worker_index else "SUM"
    values = strategy.experimental_distribute_values_from_function
    ones = values(lambda _: jnp.ones(2))
    return outcome_of(lambda: strategy.reduce(op, ones, axis=None))


def read_on_one():
    """Reads a variable whose copies are combined on one worker only."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        hits = mirrax.Variable(
            0.0,
            name="hits",
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )

    @mirrax.function
    def count():
        hits.assign_add(1.0)

    def evaluate():
        strategy.run(count)
        if strategy.topology.worker_index == 0:
            hits.numpy()
        strategy.run(count)

    return outcome_of(evaluate)


def own_values():
    """Gives values of workers' own to functions around `run`, and as state."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    worker = strategy.topology.worker_index
    values = strategy.experimental_distribute_values_from_function
    even = values(lambda c: jnp.full((2, 3), 1.0 + c.replica_id_in_sync_group))
    uneven = values(lambda c: jnp.ones((1 + c.replica_id_in_sync_group, 3)))

    @mirrax.function
    def add_up(value):
        sums = strategy.run(jnp.sum, args=(value,))
        return strategy.reduce("SUM", sums, axis=None)

    @mirrax.function
    def scale_and_add_up(scale, value):
        sums = strategy.run(lambda x: scale * jnp.sum(x), args=(value,))
        return strategy.reduce("SUM", sums, axis=None)

    @mirrax.function(donate_argnums=0)
    def advance(state):
        return mirrax.get_replica_context().all_reduce("SUM", state)

    def total(x):
        return mirrax.get_replica_context().all_reduce("SUM", x)

    @mirrax.function
    def add_twice(x):
        add = lambda _, y: y + total(jnp.sum(x))  # noqa: E731
        return jax.lax.fori_loop(0, jnp.asarray(2), add, 0.0)

    @mirrax.function
    def choose_by_size(x):
        is_small = jnp.asarray(x.shape[0] == 1)
        return mirrax.cond(is_small, total, lambda y: total(y) + 100, 1.0)

    @mirrax.function
    def add_once(x):
        return total(jnp.sum(x))

    strategy.run(add_once, args=(uneven,))
    job = strategy.topology.job
    with mock.patch.object(type(job), "exchange", side_effect=job.exchange) as exchange:
        strategy.run(add_once, args=(uneven,))

    donated = jnp.ones(2)
    donated.delete()

    def make():
        replica = mirrax.get_replica_context().replica_id_in_sync_group
        return jnp.full(2, 1.0) * (replica + 1)

    closed_over = {
        "values": values(lambda c: jnp.full(2, 1.0 + c.replica_id_in_sync_group)),
        "uneven": values(lambda c: jnp.ones(1 + c.replica_id_in_sync_group)),
        "eager": strategy.run(make),
        "compiled": strategy.run(mirrax.function(make)),
    }
    return {
        "closed_over": {
            name: _closed_over(strategy, value) for name, value in closed_over.items()
        },
        "keys": _keys(strategy),
        "even": plain(add_up(even)),
        "even_again": plain(add_up(even)),
        "uneven": plain(add_up(uneven)),
        "uneven_topics": [call.args[0] for call in exchange.call_args_list],
        "uneven_loop": plain(strategy.run(add_twice, args=(uneven,))),
        "uneven_branch": plain(
            strategy.reduce("SUM", strategy.run(choose_by_size, args=(uneven,)), None)
        ),
        "scaled": plain(scale_and_add_up(2.0, even)),
        "state": outcome_of(
            lambda: strategy.run(advance, args=(np.full(2, 1.0 * worker),))
        ),
        "donated": outcome_of(lambda: strategy.run(advance, args=(donated,))),
    }


def _keys(strategy):
    """Uses random keys in all ways in which they reach replicas and come back."""
    context = mirrax.get_replica_context
    worker = strategy.topology.worker_index
    same, own = jax.random.key(7), jax.random.key(worker)
    values = strategy.experimental_distribute_values_from_function
    uneven = values(lambda c: jax.random.split(same, 1 + c.replica_id_in_sync_group))
    with strategy.scope():
        stored = mirrax.Variable(same)

    def total(key):
        return context().all_reduce("SUM", jax.random.key_data(key)[-1] // 64)

    def fold(key):
        return jax.random.fold_in(key, context().replica_id_in_sync_group)

    def advance():
        stored.assign(jax.random.split(stored.value)[0])

    def run(fn, *args):
        return strategy.run(mirrax.function(fn), args)

    run(advance)
    found = {
        "argument": run(total, same),
        "own_argument": run(total, own),
        "closed_over": run(lambda: total(same)),
        "own_closed_over": run(lambda: total(own)),
        "returned": run(total, run(lambda key: jax.random.split(key)[0], same)),
        "of_replicas": run(total, run(fold, same)),
        "uneven": run(lambda keys: total(keys[-1]), uneven),
        "with_uneven": run(lambda keys, key: total(key) + len(keys) * 0, uneven, same),
        "variable": run(lambda: total(stored.value)),
    }
    gathered = {
        name: plain(jax.random.key_data(strategy.gather(value, axis=0)))
        for name, value in {
            "uneven": uneven,
            "even": values(lambda c: jax.random.split(same)),
        }.items()
    }
    results = strategy.experimental_local_results
    return {name: int(results(value)[0]) for name, value in found.items()}, gathered


def _closed_over(strategy, value):
    """Returns what functions make of a value of replicas that they close over."""

    def merged():
        return mirrax.get_replica_context().merge_call(
            lambda strategy: strategy.reduce("SUM", value, axis=0)
        )

    def gathered():
        return strategy.gather(value, axis=0)

    def total():
        return factor * jnp.sum(gathered())

    def made_inside():
        return strategy.experimental_distribute_values_from_function(
            lambda context: factor * (1.0 + context.replica_id_in_sync_group)
        )

    def returned_by_merge():
        return mirrax.get_replica_context().merge_call(lambda _: made_inside())

    with strategy.scope():
        factor = mirrax.Variable(2.0)
    derivative = mirrax.value_and_grad(total, factor)
    bodies = {
        "gathered": gathered,
        "derivative": derivative,
        "made_inside": lambda: strategy.reduce("SUM", made_inside(), axis=None),
        "reduced": lambda: strategy.reduce("SUM", value, axis=0),
        "merged": lambda: strategy.reduce("MEAN", strategy.run(merged), axis=None),
        "run": lambda: strategy.gather(strategy.run(jnp.negative, (value,)), axis=0),
        "returned": lambda: value,
    }
    found = {name: mirrax.function(body)() for name, body in bodies.items()}
    found["eager_derivative"] = derivative()
    found["jax_derivative"] = jax.value_and_grad(lambda x: x * total() / 2)(2.0)
    with mirrax.GradientTape() as tape:
        found["taped"] = [total()]
    found["taped"].append(tape.gradient(found["taped"][0], factor))
    found["merged_in_run"] = strategy.run(mirrax.function(merged))
    merged_parts = strategy.run(mirrax.function(returned_by_merge))
    found["returned_by_merge"] = strategy.reduce("SUM", merged_parts, axis=None)
    found["returned"] = strategy.gather(found["returned"], axis=0)
    if isinstance(value, jax.Array):
        # A worker with one replica has an array, which differs between workers.
        found["all_reduced"] = strategy.run(
            mirrax.function(
                lambda: mirrax.get_replica_context().all_reduce("SUM", value)
            )
        )
    return plain(found) | {"in_jit": outcome_of(jax.jit(gathered))}


def train(num_steps=12, clip=1.0):
    """Trains a small model on batches that do not divide; returns its parameters."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    random = np.random.default_rng(0)
    images = random.standard_normal((50, 6)).astype(np.float32)
    labels = random.standard_normal((50, 1)).astype(np.float32)
    with strategy.scope():
        weights = mirrax.Variable(np.full((6, 1), 0.1, np.float32))
        bias = mirrax.Variable(np.zeros(1, np.float32))

    def loss_of(x, y, count):
        return jnp.sum((x @ weights.value + bias.value - y) ** 2) / count

    @mirrax.function
    def step(x, y):
        context = mirrax.get_replica_context()
        count = context.all_reduce("SUM", jnp.float32(x.shape[0]))
        loss, grads = mirrax.value_and_grad(loss_of, [weights, bias])(x, y, count)
        loss, grads = context.all_reduce("SUM", (loss, grads))
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in grads))
        scale = jnp.minimum(1.0, clip / norm)
        for variable, grad in zip((weights, bias), grads, strict=True):
            variable.assign_sub(0.05 * scale * grad + 1e-4 * variable.value)
        return loss

    dataset = Dataset.from_tensor_slices((images, labels)).shuffle(50, seed=1).batch(12)
    losses, num_done = [], 0
    while num_done < num_steps:
        for batch in strategy.experimental_distribute_dataset(dataset):
            losses.append(float(strategy.run(step, args=batch)))
            num_done += 1
    return losses, plain(weights), plain(bias)


def count_calls_of_a_step():
    """Returns how many Python calls steps take, and what they have summed."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        total = mirrax.Variable(0.0)

    @mirrax.function
    def step(x):
        context = mirrax.get_replica_context()
        total.assign_add(context.all_reduce("SUM", jnp.sum(x)))
        return total.value * 1

    batch = strategy.experimental_distribute_values_from_function(
        lambda context: jnp.full(3, context.replica_id_in_sync_group, jnp.float32)
    )
    counts = []

    def record(frame, event, argument):
        counts[-1] += event == "call"

    for _ in range(4):
        counts.append(0)
        sys.setprofile(record)
        strategy.run(step, args=(batch,))
        sys.setprofile(None)
    # A number has to be compared, although the call before had the same kind.
    own = float(strategy.topology.worker_index)
    varied = [plain(strategy.run(step, args=(own,))) for _ in range(2)]
    return counts, plain(total), varied


def chief():
    return mirrax.MultiWorkerMirroredStrategy().is_chief, os.environ["RANK"]


def page_faults():
    """Returns how many pages buffers take that are allocated and freed again."""
    mirrax.MultiWorkerMirroredStrategy()

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            [np.ones(200_000, np.float32) for _ in range(20)]
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return min(faults() for _ in range(3))


# Of one job: to start it takes longer than all they do.
SHARED = (
    chief,
    page_faults,
    variables,
    collectives,
    mismatches,
    count_calls_of_a_step,
    train,
)


def answer_all():
    return {program.__name__: program() for program in SHARED}
