"""All-reduce between CPU workers: the same bits however replicas are spread."""

import hashlib
import math
import pathlib
import re
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import mirrax
from mirrax.collectives import spmd, worker_costs
from mirrax.collectives.worker_all_reduce import WorkerAllReduce, sum_over_replicas
from mirrax.collectives.worker_costs import PACKED_BYTES, SUM_IN_FULL_BYTES
from mirrax.testing import launch_processes
from tests.programs import engines, mirrored, replica_id

SIZES = (1, 7, 40_000)
COLLECTIVE = re.compile(
    r"stablehlo\.(all_\w+|reduce_scatter)\"?(?:.*\n)*?.* : \(tensor<([\dx]*)"
)


def messages(values, num_replicas, **options):
    """Returns the collectives that XLA gets for a sum, with the size of their input."""
    options = mirrax.CommunicationOptions(**options)
    strategy = mirrored(num_replicas)
    program = jax.shard_map(
        lambda xs: WorkerAllReduce().sum_over_replicas(xs, num_replicas, options),
        mesh=strategy.topology.mesh,
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    text = jax.jit(program).lower(values).as_text()
    return [
        (name, math.prod(int(size) for size in shape.split("x") if size))
        for name, shape in COLLECTIVE.findall(text)
    ]


def large(num_replicas):
    return jnp.ones(SUM_IN_FULL_BYTES // 4 // (num_replicas - 1) + 1)


def test_small_values_go_into_one_message():
    values = [jnp.ones(3), jnp.ones(4), jnp.ones(PACKED_BYTES)]
    assert messages(values, 2) == [("all_to_all", 14), ("all_to_all", 2 * PACKED_BYTES)]


@pytest.mark.parametrize(
    ("backend", "kinds"),
    [("cpu", {"all_to_all"}), ("gpu", {"all_reduce", "all_gather"})],
)
def test_only_cpu_workers_exchange_small_values(monkeypatch, backend, kinds):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)

    def step(x):
        return sum_over_replicas(x, 2), spmd.all_gather([x], 0), spmd.first(x)

    program = jax.shard_map(
        step,
        mesh=mirrored(2).topology.mesh,
        in_specs=PartitionSpec(),
        out_specs=PartitionSpec(),
        check_vma=False,
    )
    text = jax.jit(program).lower(jnp.ones(3)).as_text()
    assert {name for name, _ in COLLECTIVE.findall(text)} == kinds


def test_large_values_of_two_replicas_take_the_all_reduce_of_xla():
    value = large(2)
    assert messages([value], 2) == [("all_reduce", value.size)]


def test_large_values_of_more_replicas_are_summed_in_pieces():
    value = large(3)
    padded = -(-value.size // 3) * 3
    assert messages([value], 3) == [("all_to_all", padded), ("all_gather", padded // 3)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"implementation": "RING"}, ["all_reduce"]),
        ({"cpu_sum": "all_reduce"}, ["all_reduce"]),
        ({"cpu_sum": "in_pieces"}, ["all_to_all", "all_gather"]),
        ({"cpu_sum": "in_full"}, ["all_to_all"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [3, 2**21], ids=["small", "large"])
def test_options_choose_how_to_add_up(size, options, expected):
    found = messages([jnp.ones(size)], 2, **options)
    assert [name for name, _ in found] == expected


def test_bytes_per_pack_bounds_the_messages():
    found = messages([jnp.ones(2)] * 3, 2, bytes_per_pack=16)
    assert found == [("all_to_all", 8), ("all_to_all", 4)]


def numbers(seed, size, dtype):
    values = np.random.default_rng(seed).standard_normal(size) * 100
    return jnp.asarray(values).astype(dtype)


def sums(dtype):
    values = [numbers(s, size, dtype) for s, size in enumerate(SIZES)]
    scale = jnp.asarray(replica_id() + 1, dtype)
    values = [value * scale for value in values]
    return mirrax.get_replica_context().all_reduce("SUM", values)


def digest(values):
    return [hashlib.sha256(np.asarray(v).tobytes()).hexdigest() for v in values]


@pytest.mark.parametrize("in_pieces", [False, True], ids=["in_full", "in_pieces"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32", "complex64"])
def test_sums_have_the_bits_of_one_process(monkeypatch, dtype, in_pieces):
    expected = digest(mirrored(4).run(mirrax.function(lambda: sums(dtype))))
    if in_pieces:
        monkeypatch.setattr(worker_costs, "SUM_IN_FULL_BYTES", 0)
    strategy = mirrored(4, cross_device_ops=WorkerAllReduce())
    assert digest(strategy.run(mirrax.function(lambda: sums(dtype)))) == expected


def test_bfloat16_is_added_up_as_float32():
    strategy = mirrored(4, cross_device_ops=WorkerAllReduce())

    @mirrax.function
    def step(value):
        return mirrax.get_replica_context().all_reduce("SUM", value)

    # In bfloat16, 256 + 1 is 256.
    values = [jnp.bfloat16(x) for x in (256, 1, 1, 2)]
    whole = strategy.experimental_distribute_values_from_function(
        lambda context: values[context.replica_id_in_sync_group]
    )
    assert float(strategy.run(step, args=(whole,))) == 260.0


@engines
@pytest.mark.parametrize("in_pieces", [False, True], ids=["in_full", "in_pieces"])
def test_gradients_flow_through_the_sum(monkeypatch, engine, in_pieces):
    if in_pieces:
        monkeypatch.setattr(worker_costs, "SUM_IN_FULL_BYTES", 0)
    x = jnp.arange(5.0)

    def step():
        def loss(x):
            total = mirrax.get_replica_context().all_reduce(
                "SUM", x * (replica_id() + 1)
            )
            return jnp.sum(total**2)

        return jax.grad(loss)(x)

    expected = mirrored(4).run(engine(step)).values
    found = mirrored(4, cross_device_ops=WorkerAllReduce()).run(engine(step)).values
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_parts_of_unequal_sizes_are_summed():
    strategy = mirrored(2, cross_device_ops=WorkerAllReduce())
    dataset = mirrax.data.Dataset.from_tensor_slices(jnp.arange(5.0)).batch(5)

    @mirrax.function
    def step(x):
        return mirrax.get_replica_context().all_reduce("SUM", jnp.sum(x))

    (batch,) = strategy.experimental_distribute_dataset(dataset)
    assert float(strategy.run(step, args=(batch,))) == 10.0


def answer():
    """Runs on the workers: digests of sums, and gathered and reduced values."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    on_read = mirrax.VariableSynchronization.ON_READ
    with strategy.scope():
        seen = mirrax.Variable(
            jnp.zeros(3),
            synchronization=on_read,
            aggregation=mirrax.VariableAggregation.SUM,
        )

    def step():
        own = numbers(5, 3, "float32") * (replica_id() + 1)
        seen.assign_add(own / 3)
        gathered = mirrax.get_replica_context().all_gather(own[None], axis=0)
        return sums("float32"), gathered, own / 7

    answers = []
    for engine in (mirrax.function, lambda fn: fn):
        totals, gathered, own = strategy.run(engine(step))
        same = [strategy.experimental_local_results(x)[0] for x in (*totals, gathered)]
        reduced = strategy.reduce("SUM", own, axis=None)
        joined = strategy.gather(own, axis=0)
        answers.append(digest([*same, reduced, joined]))
    return [*answers, digest([seen.read_value()])]


@pytest.mark.slow
def test_workers_give_the_bits_of_one_process():
    alone = launch_processes(answer, 1, devices=4)
    assert launch_processes(answer, 2, devices=2) == alone * 2
    assert launch_processes(answer, 4, devices=1) == alone * 4


def collectives_of_small_values():
    """Runs on the workers: which collectives XLA gets for 1 KB, by operation."""
    strategy = mirrax.MultiWorkerMirroredStrategy()
    with strategy.scope():
        seen = mirrax.Variable(
            jnp.zeros(256),
            synchronization=mirrax.VariableSynchronization.ON_READ,
            aggregation=mirrax.VariableAggregation.SUM,
        )

    def gather():
        # Another shape, because a program is compiled once.
        own = jnp.ones(255) * replica_id()
        return mirrax.get_replica_context().all_gather(own, axis=0)

    own = strategy.run(mirrax.function(lambda: jnp.ones(256) * replica_id()))
    operations = {
        "reduce": lambda: strategy.reduce("MEAN", own, axis=None),
        "reduce along an axis": lambda: strategy.reduce("SUM", own, axis=0),
        "gather": lambda: strategy.gather(own, axis=0),
        "read of a sum": seen.read_value,
        "all_gather": lambda: strategy.run(gather),
        "compiled all_gather": lambda: strategy.run(mirrax.function(gather)),
    }
    found = {}
    for name, operation in operations.items():
        with tempfile.TemporaryDirectory() as folder:
            jax.config.update("jax_dump_ir_to", folder)
            operation()
            texts = [path.read_text() for path in pathlib.Path(folder).glob("*.mlir")]
        pattern = r"stablehlo\.(all_\w+|reduce_scatter|collective_\w+)"
        found[name] = sorted(set(re.findall(pattern, "\n".join(texts))))
    return found


@pytest.mark.slow
def test_small_values_are_exchanged_by_every_operation():
    found, same = launch_processes(collectives_of_small_values, 2, devices=1)
    assert found == same
    assert found == {name: ["all_to_all"] for name in found}
