"""Plain variables, and what all kinds have in common."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrax
from mirrax import VariableAggregation, VariableSynchronization
from mirrax.variables import MirroredVariable
from tests.programs import create, cut_in_two, engines, mirrored, parts


@pytest.fixture(params=["outside", "one_device", "mirrored_1", "mirrored_2"])
def create_anywhere(request):
    """Creates a variable outside every scope, or in that of a strategy."""
    strategies = {
        "one_device": lambda: mirrax.OneDeviceStrategy("CPU:0"),
        "mirrored_1": lambda: mirrored(1),
        "mirrored_2": lambda: mirrored(2),
    }
    if request.param == "outside":
        return mirrax.Variable
    strategy = strategies[request.param]()
    return lambda *args, **kwargs: create(strategy, *args, **kwargs)


# Kinds and attributes.


def test_variable_outside_every_scope_is_plain():
    assert type(mirrax.Variable(1.0)) is mirrax.Variable


def test_variable_of_one_device_is_plain():
    v = create(mirrax.OneDeviceStrategy("CPU:3"), 1.0)
    assert type(v) is mirrax.Variable
    assert v.device == "/job:localhost/replica:0/task:0/device:CPU:3"


def test_variable_of_the_default_strategy_is_plain():
    assert type(create(mirrax.get_strategy(), 1.0)) is mirrax.Variable


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_variable_of_a_mirrored_strategy_is_mirrored(num_replicas):
    assert type(create(mirrored(num_replicas), 1.0)) is MirroredVariable


def test_variable_after_a_scope_is_plain(two_replicas):
    with two_replicas.scope():
        pass
    assert type(mirrax.Variable(1.0)) is mirrax.Variable


def test_every_kind_is_a_variable(create_anywhere):
    assert isinstance(create_anywhere(1.0), mirrax.Variable)


def test_name_is_variable_by_default(create_anywhere):
    assert create_anywhere(1.0).name == "Variable:0"


def test_name_gets_tensorflows_suffix(create_anywhere):
    assert create_anywhere(1.0, name="alpha").name == "alpha:0"


def test_shape_and_dtype_are_those_of_the_initial_value(create_anywhere):
    v = create_anywhere(np.ones((2, 3), np.float16))
    assert v.shape == (2, 3)
    assert v.dtype == np.float16


def test_dtype_can_be_chosen(create_anywhere):
    v = create_anywhere([1, 2], dtype=jnp.float32)
    assert v.dtype == np.float32
    assert v.value.dtype == np.float32


def test_variable_is_trainable_by_default(create_anywhere):
    assert create_anywhere(1.0).trainable


def test_variable_can_be_not_trainable(create_anywhere):
    assert not create_anywhere(1.0, trainable=False).trainable


def test_variable_synchronized_on_read_is_not_trainable_by_default(create_anywhere):
    on_read = VariableSynchronization.ON_READ
    assert not create_anywhere(1.0, synchronization=on_read).trainable


def test_variable_synchronized_on_read_can_be_trainable(create_anywhere):
    on_read = VariableSynchronization.ON_READ
    assert create_anywhere(1.0, synchronization=on_read, trainable=True).trainable


def test_aggregation_is_none_by_default(create_anywhere):
    assert create_anywhere(1.0).aggregation is VariableAggregation.NONE


def test_repr_of_a_scalar_is_that_of_the_documents():
    text = "<mirrax.Variable 'Variable:0' shape=() dtype=float32, numpy=1.0>"
    assert repr(mirrax.Variable(1.0)) == text


def test_repr_of_a_matrix_has_its_rows_below_each_other():
    assert repr(mirrax.Variable([[1, 2], [3, 4]])) == (
        "<mirrax.Variable 'Variable:0' shape=(2, 2) dtype=int32, numpy=\n"
        "array([[1, 2],\n"
        "       [3, 4]], dtype=int32)>"
    )


def test_repr_of_a_vector_is_that_of_the_documents():
    assert repr(mirrax.Variable([1.0, 2.0], name="alpha")) == (
        "<mirrax.Variable 'alpha:0' shape=(2,) dtype=float32, "
        "numpy=array([1., 2.], dtype=float32)>"
    )


def test_repr_in_a_function_shows_no_value(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    shown = []
    mirrax.function(lambda: shown.append(repr(v)))()
    assert shown == ["<mirrax.Variable 'Variable:0' shape=(2,) dtype=float32>"]


# Reading and writing.


def test_value_is_the_array(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    assert isinstance(v.value, jax.Array)
    assert v.value.tolist() == [1.0, 2.0]
    assert v.read_value().tolist() == [1.0, 2.0]


@engines
@pytest.mark.parametrize(
    ("method", "expected"),
    [("assign", [3.0, 4.0]), ("assign_add", [4.0, 6.0]), ("assign_sub", [-2.0, -2.0])],
    ids=["assign", "assign_add", "assign_sub"],
)
def test_assignments_change_the_value(create_anywhere, engine, method, expected):
    v = create_anywhere([1.0, 2.0])
    engine(lambda: getattr(v, method)([3.0, 4.0]))()
    assert v.numpy().tolist() == expected


def test_assignment_to_a_plain_variable_gives_the_variable():
    v = mirrax.Variable(1.0)
    assert v.assign(2.0).assign_add(1.0).assign_sub(0.5) is v
    assert v.numpy() == 2.5


def test_what_converts_without_loss_can_be_assigned(create_anywhere):
    v, other = create_anywhere(0.0), mirrax.Variable(7.0)
    for given in (2.5, 3, True, np.float32(4), np.float64(5), jnp.float32(6), other):
        v.assign(given)
        assert v.numpy() == float(given)
        assert v.value.dtype == np.float32


def test_numpy_is_a_copy(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    copy = v.numpy()
    copy[:] = 9.0
    assert v.numpy().tolist() == [1.0, 2.0]


def test_numpy_does_not_change_with_the_variable(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    copy = v.numpy()
    mirrax.function(lambda: v.assign_add([1.0, 1.0]))()
    assert copy.tolist() == [1.0, 2.0]


@pytest.fixture
def aligned_ones():
    """Returns ones that JAX would take over without a copy on CPUs."""
    memory = np.empty(16 + 16, np.float32)
    start = -memory.ctypes.data % 64 // memory.itemsize
    ones = memory[start : start + 16]
    ones[:] = 1.0
    return ones


def test_variable_copies_the_users_numpy_array(create_anywhere, aligned_ones):
    v = create_anywhere(aligned_ones)
    aligned_ones[:] = 5.0
    assert v.numpy().tolist() == [1.0] * 16


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64"])
def test_variable_copies_the_users_numpy_array_at_once(dtype):
    given = np.ones((4, 4096), jnp.dtype(dtype))
    busy = jnp.ones((1000, 1000))
    # JAX copies later while a device is busy.
    for _ in range(10):
        busy = jnp.sin(busy @ busy)
        variable = mirrax.Variable(given)
        given[:] = 5
        np.testing.assert_array_equal(np.asarray(variable.value), 1)
        given[:] = 1


def test_assignment_copies_the_users_numpy_array(create_anywhere, aligned_ones):
    v = create_anywhere(np.zeros(16, np.float32))
    v.assign(aligned_ones)
    aligned_ones[:] = 5.0
    assert v.numpy().tolist() == [1.0] * 16


@pytest.mark.parametrize("synchronization", ["ON_WRITE", "ON_READ"])
def test_assignment_in_run_copies_the_users_numpy_array(
    strategy, aligned_ones, synchronization
):
    v = create(
        strategy,
        np.zeros(16, np.float32),
        synchronization=VariableSynchronization[synchronization],
        aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
    )
    strategy.run(lambda: v.assign(aligned_ones))
    aligned_ones[:] = 5.0
    assert v.numpy().tolist() == [1.0] * 16


# Values that are handed out stay what they were.


def add_one(variable):
    """Adds one, compiled, so that the old buffer of the variable is reused."""
    mirrax.function(lambda: variable.assign_add(jnp.ones(variable.shape)))()


def test_value_stays_valid_after_a_compiled_step(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    old = v.value
    add_one(v)
    assert old.tolist() == [1.0, 2.0]
    assert v.numpy().tolist() == [2.0, 3.0]


def test_value_seen_from_numpy_stays_valid_after_a_compiled_step(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    old = np.asarray(v.value)
    add_one(v)
    assert old.tolist() == [1.0, 2.0]


def test_value_put_on_a_device_stays_valid_after_a_compiled_step(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    old = jax.device_put(v.value, jax.devices("cpu")[0])
    add_one(v)
    assert old.tolist() == [1.0, 2.0]


def test_result_of_an_assignment_stays_valid_after_a_compiled_step(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    old = v.assign([3.0, 4.0])
    add_one(v)
    assert old.numpy().tolist() == [3.0, 4.0]


def test_result_of_an_assignment_in_run_stays_valid(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    old = two_replicas.run(lambda: v.assign_add([1.0, 1.0]))
    add_one(v)
    assert parts(two_replicas, old) == [[2.0, 3.0]] * 2


def test_value_read_in_run_stays_valid_after_a_compiled_step(strategy):
    v = create(strategy, [1.0, 2.0])
    old = strategy.run(lambda: v.value)
    add_one(v)
    assert parts(strategy, old)[-1] == [1.0, 2.0]


def test_part_stays_valid_after_a_compiled_step(two_replicas):
    v = create(two_replicas, [1.0, 2.0])
    old = two_replicas.experimental_local_results(v)[1].value
    add_one(v)
    assert old.tolist() == [1.0, 2.0]


def test_users_initial_array_survives_a_compiled_step(create_anywhere):
    mine = jnp.array([1.0, 2.0])
    v = create_anywhere(mine)
    add_one(v)
    assert mine.tolist() == [1.0, 2.0]


def test_users_assigned_array_survives_a_compiled_step(create_anywhere):
    mine = jnp.array([1.0, 2.0])
    v = create_anywhere([0.0, 0.0])
    v.assign(mine)
    add_one(v)
    assert mine.tolist() == [1.0, 2.0]


def test_variable_made_of_another_survives_its_compiled_step(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    copy = create_anywhere(v)
    add_one(v)
    assert copy.numpy().tolist() == [1.0, 2.0]


def test_variable_assigned_from_another_survives_its_compiled_step(create_anywhere):
    v, copy = create_anywhere([1.0, 2.0]), create_anywhere([0.0, 0.0])
    copy.assign(v)
    add_one(v)
    assert copy.numpy().tolist() == [1.0, 2.0]


def test_two_variables_of_one_array_do_not_share_it(create_anywhere):
    mine = jnp.array([1.0, 2.0])
    first, second = create_anywhere(mine), create_anywhere(mine)
    mirrax.function(lambda: (first.assign([0.0, 0.0]), second.assign_add([1.0, 1.0])))()
    assert first.numpy().tolist() == [0.0, 0.0]
    assert second.numpy().tolist() == [2.0, 3.0]


# In JAX programs.


def test_gradient_with_respect_to_a_variable(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    gradient = jax.grad(lambda x: jnp.sum(x**2))(v)
    assert isinstance(gradient, jax.Array)
    assert gradient.tolist() == [2.0, 4.0]


def test_gradient_of_an_expression_that_reads_a_variable(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    gradient = jax.grad(lambda x: jnp.sum(x * v))(jnp.ones(2))
    assert gradient.tolist() == [1.0, 2.0]


def test_variable_is_an_argument_of_jit(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    double = jax.jit(lambda x: 2 * x)
    assert double(v).tolist() == [2.0, 4.0]
    v.assign([5.0, 6.0])
    assert double(v).tolist() == [10.0, 12.0]


def test_variables_in_a_pytree_become_arrays(create_anywhere):
    tree = {"w": create_anywhere([1.0, 2.0]), "b": [create_anywhere(3.0)]}
    mapped = jax.tree.map(lambda x: x + 1, tree)
    assert isinstance(mapped["w"], jax.Array)
    assert mapped["w"].tolist() == [2.0, 3.0]
    assert mapped["b"][0] == 4.0


def test_pytree_of_variables_can_be_differentiated(create_anywhere):
    model = {"w": create_anywhere(3.0), "b": create_anywhere(1.0)}
    gradients = jax.grad(lambda m, x: m["w"] * x + m["b"])(model, 2.0)
    assert gradients == {"w": 2.0, "b": 1.0}


FOREIGN_TRACES = {
    "jit": lambda read: jax.jit(lambda x: x + read())(1.0),
    "scan": lambda read: jax.lax.scan(lambda c, _: (c + read(), 0), 1.0, jnp.ones(2)),
    "cond": lambda read: jax.lax.cond(True, lambda x: x + read(), lambda x: x, 1.0),
    "make_jaxpr": lambda read: jax.make_jaxpr(lambda x: x + read())(1.0),
    "jit_of_vmap": lambda read: jax.jit(jax.vmap(lambda x: x + read()))(jnp.ones(2)),
    "jit_of_grad": lambda read: jax.jit(jax.grad(lambda x: x * read()))(1.0),
    "jit_of_jvp": lambda read: jax.jit(jax.jacfwd(lambda x: x * read()))(1.0),
    "jit_of_both": lambda read: jax.jit(jax.vmap(jax.grad(lambda x: x * read())))(
        jnp.ones(2)
    ),
    "vmap_of_jit": lambda read: jax.vmap(jax.jit(lambda x: x * read()))(jnp.ones(2)),
    "grad_of_scan": lambda read: jax.grad(
        lambda x: jax.lax.scan(lambda c, _: (c * read(), 0), x, jnp.ones(2))[0]
    )(1.0),
}


def test_read_in_a_foreign_trace_is_refused(create_anywhere):
    v = create_anywhere(1.0)
    message = "'Variable:0' was read inside jax.jit .*`@mirrax.function` in place"
    for trace in FOREIGN_TRACES.values():
        with pytest.raises(RuntimeError, match=message):
            trace(lambda: v.value)


@pytest.mark.parametrize("trace", FOREIGN_TRACES)
def test_read_in_such_a_trace_works_inside_a_function(two_replicas, trace):
    v = create(two_replicas, 1.0)
    seen = []

    @mirrax.function
    def read():
        FOREIGN_TRACES[trace](lambda: seen.append(v.value) or v.value)
        return v.value

    read()
    v.assign(2.0)
    assert float(read()) == 2
    assert seen


def test_read_in_jit_inside_an_eager_replica_is_refused(two_replicas):
    v = create(two_replicas, 1.0)
    with pytest.raises(RuntimeError, match=r"was read inside jax.jit"):
        two_replicas.run(lambda: jax.jit(lambda x: x + v)(1.0))


TRANSFORMATIONS = {
    "jit": lambda write: jax.jit(lambda x: [write(x)] and x)(1.0),
    "grad": lambda write: jax.grad(lambda x: [write(x)] and x)(1.0),
    "vmap": lambda write: jax.vmap(lambda x: [write(x)] and x)(jnp.ones(2)),
    "constant_in_jit": lambda write: jax.jit(lambda x: [write(2.0)] and x)(1.0),
}


@pytest.mark.parametrize("transform", TRANSFORMATIONS)
def test_write_in_a_foreign_transformation_is_refused(create_anywhere, transform):
    v = create_anywhere(1.0)
    with pytest.raises(RuntimeError, match=r"'Variable:0' was .* inside"):
        TRANSFORMATIONS[transform](v.assign)
    assert v.numpy() == 1.0


# A plain variable in `run`.


def test_plain_variable_is_written_by_eager_replicas_in_turn(strategy):
    v = mirrax.Variable(1.0)
    strategy.run(lambda: v.assign_add(2.0))
    assert v.numpy() == 1.0 + 2.0 * strategy.num_replicas_in_sync


def test_plain_variable_is_not_written_by_compiled_replicas(two_replicas):
    v = mirrax.Variable(1.0)
    message = r"'Variable:0' was created outside `strategy.scope\(\)`.*inside the scope"
    with pytest.raises(RuntimeError, match=message):
        two_replicas.run(mirrax.function(lambda: v.assign_add(2.0)))
    assert v.numpy() == 1.0


@pytest.mark.parametrize(
    "make", [lambda: mirrax.OneDeviceStrategy("CPU:0"), lambda: mirrored(1)]
)
def test_plain_variable_is_written_by_the_only_compiled_replica(make):
    v = mirrax.Variable(1.0)
    make().run(mirrax.function(lambda: v.assign_add(2.0)))
    assert v.numpy() == 3.0


@engines
def test_plain_variable_is_read_by_all_replicas(strategy, engine):
    v = mirrax.Variable([1.0, 2.0])
    result = strategy.run(engine(lambda: v * 2))
    expected = [[2.0, 4.0]] * strategy.num_replicas_in_sync
    assert parts(strategy, result) == expected


def test_plain_variable_of_another_device_is_read_by_all_replicas(two_replicas):
    v = create(mirrax.OneDeviceStrategy("CPU:5"), [1.0, 2.0])
    result = two_replicas.run(mirrax.function(lambda: v * 2))
    assert parts(two_replicas, result) == [[2.0, 4.0]] * 2


def test_plain_variable_can_be_written_around_run_in_a_function(two_replicas):
    v = mirrax.Variable(1.0)

    @mirrax.function
    def step():
        result = two_replicas.run(lambda: jnp.float32(3))
        v.assign_add(two_replicas.reduce("SUM", result, axis=None))

    step()
    step()
    assert v.numpy() == 13.0


# Arrays that are cut over devices.


def test_array_that_is_cut_gives_a_variable_its_whole_value(create_anywhere):
    v = create_anywhere(cut_in_two(jnp.arange(4.0)))
    assert v.numpy().tolist() == v.value.tolist() == [0, 1, 2, 3]
    v.assign_add(jnp.ones(4))
    v.assign_add(cut_in_two(jnp.ones(4)))
    assert v.numpy().tolist() == [2, 3, 4, 5]


def test_function_may_assign_an_array_that_is_cut():
    v = mirrax.Variable(jnp.zeros(4))
    mirrax.function(v.assign)(cut_in_two(jnp.arange(4.0)))
    assert v.numpy().tolist() == v.value.tolist() == [0, 1, 2, 3]
    v.assign_add(jnp.ones(4))
    assert v.numpy().tolist() == [1, 2, 3, 4]


# Copies.


def test_deep_copy_is_a_variable_of_its_own(create_anywhere):
    v = create_anywhere([1.0, 2.0])
    other = copy.deepcopy(v)
    v.assign([5.0, 5.0])
    assert type(other) is type(v)
    assert other.numpy().tolist() == [1.0, 2.0]


def test_variable_cannot_be_pickled(create_anywhere):
    with pytest.raises(TypeError, match=r"cannot be pickled. Pickle `variable.numpy"):
        pickle.dumps(create_anywhere(1.0))


def test_ref_is_equal_for_the_same_variable_only():
    v, w = mirrax.Variable(1.0), mirrax.Variable(1.0)
    assert v.ref() == v.ref()
    assert v.ref() != w.ref()
    assert len({v.ref(), w.ref(), v.ref()}) == 2
    assert v.ref().deref() is v
