"""Sharded variables are what mirrored ones are, in a part of the memory."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax.collectives.shard_layout import ShardLayout
from mirrax.variables import MirroredVariable, ShardedVariable


def make_strategy(num_replicas, shard_state=1):
    devices = [f"CPU:{i}" for i in range(num_replicas)]
    return mirrax.MirroredStrategy(devices, shard_state=shard_state)


@pytest.fixture(params=[(8, 3), (7, 3), (1, 9)], ids=["even", "padded", "one_row"])
def variable(request):
    size = int(np.prod(request.param))
    data = np.arange(size, dtype="f").reshape(request.param)
    with make_strategy(2).scope():
        return mirrax.Variable(data, name="v")


def whole(variable):
    return np.arange(variable.value.size, dtype="f").reshape(variable.shape)


def test_each_replica_stores_a_part(variable):
    stored = sum(shard.data.size for shard in variable.stored.addressable_shards)
    assert isinstance(variable, ShardedVariable)
    assert stored - variable.value.size <= max(variable.shape)
    assert len({s.device for s in variable.stored.addressable_shards}) == 2
    assert variable.stored.addressable_shards[0].data.size == stored // 2


@pytest.mark.parametrize(
    "show", [repr, lambda v: v._repr_html_()], ids=["repr", "html"]
)
def test_showing_it_gathers_once(variable, show, monkeypatch):
    gathered = []
    load = ShardLayout.load

    def counted(*args):
        gathered.append(args)
        return load(*args)

    monkeypatch.setattr(ShardLayout, "load", counted)
    assert f"{variable.size - 1}." in show(variable)
    assert len(gathered) == 1


def test_reads_give_the_whole_value(variable):
    expected = whole(variable)
    np.testing.assert_array_equal(variable.numpy(), expected)
    np.testing.assert_array_equal(variable + 1, expected + 1)
    assert not variable.value.committed
    assert variable.value.shape == variable.shape
    assert "ShardedVariable" in repr(variable)
    for index, part in enumerate(variable.values):
        np.testing.assert_array_equal(part, expected)
        assert part.value.devices() == {jax.devices()[index]}


def test_assignments_outside_of_run_store_the_whole_value(variable):
    expected = whole(variable)
    variable.assign_add(np.ones_like(expected))
    given = expected * 3
    np.testing.assert_array_equal(variable, expected + 1)
    result = variable.assign(given)
    given[:] = 0
    np.testing.assert_array_equal(result, expected * 3)
    np.testing.assert_array_equal(variable.assign_sub(expected), expected * 2)
    assert variable.stored.addressable_shards[0].data.size < expected.size
    with pytest.raises(ValueError, match="fixed shape"):
        variable.assign(np.zeros((2, 2), "f"))


def test_eager_run_reads_and_writes_it(variable):
    strategy, expected = variable.owner, whole(variable)

    def step():
        variable.assign_add(jnp.ones(variable.shape))
        return jnp.sum(variable.value)

    total = strategy.run(step)
    assert [float(x) for x in total.values] == [(expected + 1).sum()] * 2
    np.testing.assert_array_equal(variable, expected + 1)

    def differ():
        index = mirrax.get_replica_context().replica_id_in_sync_group
        variable.assign(jnp.ones(variable.shape) * index)

    with pytest.raises(ValueError, match="every replica must assign the same"):
        strategy.run(differ)


def test_assignment_gathers_nothing(variable, monkeypatch):
    new = whole(variable) + 1
    with monkeypatch.context() as patch:
        patch.delattr(ShardLayout, "load")
        outside = variable.assign(new)
        inside = variable.owner.run(lambda: variable.assign(new))
    for written in (outside, inside):
        for index, part in enumerate(written.values):
            np.testing.assert_array_equal(part, new)
            assert part.devices() == {jax.devices()[index]}
        assert len(written.values) == 2
    np.testing.assert_array_equal(variable, new)


def test_update_of_extended_stores_it(variable):
    expected = whole(variable)
    variable.owner.extended.update(variable, lambda v: v.assign(v * 2))
    np.testing.assert_array_equal(variable, expected * 2)
    copied = copy.deepcopy(variable)
    variable.assign(expected)
    np.testing.assert_array_equal(copied, expected * 2)


def test_function_outside_of_run_reads_writes_and_differentiates(variable):
    expected = whole(variable)

    @mirrax.function
    def step():
        total, gradient = mirrax.value_and_grad(
            lambda: jnp.sum(variable.value**2), variable
        )()
        variable.assign_sub(0.5 * gradient)
        return total, variable.value + 1

    total, after = step()
    assert total == (expected**2).sum()
    np.testing.assert_array_equal(after, np.ones_like(expected))
    np.testing.assert_array_equal(variable, np.zeros_like(expected))


def test_assignments_between_compiled_steps_are_seen(variable):
    strategy = variable.owner
    double = mirrax.function(lambda: variable.assign(variable * 2))
    held = []
    for start in (1.0, 5.0):
        variable.assign(np.full(variable.shape, start, "f"))
        held.append(variable.value)
        strategy.run(double)
        strategy.run(double)
        np.testing.assert_array_equal(variable, np.full(variable.shape, 4 * start))
    assert [float(array[0, 0]) for array in held] == [1, 5]


@pytest.mark.parametrize("value", [1.0, np.zeros((0, 4), "f"), jax.random.key(0)])
def test_scalars_empty_arrays_and_keys_stay_mirrored(value):
    with make_strategy(2).scope():
        made = mirrax.Variable(value)
    assert type(made) is MirroredVariable


def test_size_and_argument_decide_what_is_sharded():
    large, small = np.zeros(20_000, "f"), np.zeros(10, "f")
    with make_strategy(2, shard_state=True).scope():
        kinds = [
            mirrax.Variable(large),
            mirrax.Variable(small),
            mirrax.Variable(small, sharded=True),
            mirrax.Variable(large, sharded=False),
        ]
    with make_strategy(2, shard_state=False).scope():
        kinds += [mirrax.Variable(large), mirrax.Variable(large, sharded=True)]
    with make_strategy(1).scope():
        kinds += [mirrax.Variable(large, sharded=True)]
    assert [type(v) is ShardedVariable for v in kinds] == [
        *(True, False, True, False, False, True, False)
    ]


def test_sharded_variable_that_is_synchronized_on_read_is_refused():
    on_read = mirrax.VariableSynchronization.ON_READ
    with (
        make_strategy(2).scope(),
        pytest.raises(ValueError, match=r"'total' with sharded=True.*Leave out one"),
    ):
        mirrax.Variable(np.ones(4), name="total", sharded=True, synchronization=on_read)


def test_variable_that_is_sharded_by_a_size_is_refused():
    with (
        make_strategy(2).scope(),
        pytest.raises(ValueError, match=r"sharded=64 for variable 'w'.*`shard_state`"),
    ):
        mirrax.Variable(np.ones(4), name="w", sharded=64)


@pytest.mark.parametrize("shard_state", [-1, "yes", 0.5])
def test_wrong_shard_state_is_refused(shard_state):
    with pytest.raises(ValueError, match="`shard_state` is True, False, the smallest"):
        make_strategy(2, shard_state)


@pytest.mark.parametrize(
    ("saved", "restored"), [((2, 1), (3, 1)), ((4, 1), (2, False)), ((1, 1), (4, 1))]
)
def test_checkpoint_is_restored_on_other_replicas_and_kinds(tmp_path, saved, restored):
    data = np.arange(24, dtype="f").reshape(8, 3)
    for arguments, start in ((saved, data), (restored, np.zeros_like(data))):
        strategy = make_strategy(*arguments)
        with strategy.scope():
            variable = mirrax.Variable(start)
        array = strategy.shard(jnp.asarray(start))
        checkpoint = mirrax.train.Checkpoint(v=variable, state={"a": array})
        if start is data:
            checkpoint.write(tmp_path / "saved")
        else:
            checkpoint.read(tmp_path / "saved")
    np.testing.assert_array_equal(variable, data)
    np.testing.assert_array_equal(checkpoint.state["a"], data)
    assert checkpoint.state["a"].sharding == array.sharding


def test_callback_can_read_it():
    strategy = make_strategy(2)
    with strategy.scope():
        v = mirrax.Variable(np.arange(6, dtype="f"))
    seen = []

    @mirrax.function
    def step():
        jax.debug.callback(lambda: seen.append(v.numpy()))
        return v.value[5]

    assert strategy.run(step) == 5
    jax.effects_barrier()
    np.testing.assert_array_equal(seen, [np.arange(6)] * 2)
