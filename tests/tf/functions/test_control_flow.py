"""The same answers outside and inside of programs."""

import jax
import numpy as np
import pytest

from mirrax import tf

everywhere = pytest.mark.parametrize(
    "place", [lambda fn: fn, tf.function], ids=["eager", "function"]
)


@everywhere
def test_cond_takes_a_branch(place):
    choose = place(lambda x: tf.cond(x > 0, lambda: x * 2, lambda: -x))
    assert [choose(tf.constant(v)).numpy() for v in (3.0, -3.0)] == [6, 3]


@everywhere
def test_case_takes_the_first_that_holds(place):
    choose = place(
        lambda x: tf.case(
            [(x < 1, lambda: x * 0 + 10), (x < 2, lambda: x * 0 + 20)],
            default=lambda: x * 0 + 30,
        )
    )
    assert [int(choose(tf.constant(v))) for v in (0, 1, 2)] == [10, 20, 30]


@everywhere
def test_switch_case_takes_a_branch_by_number(place):
    fns = {0: lambda: tf.constant(10), 2: lambda: tf.constant(30)}
    choose = place(lambda n: tf.switch_case(n, fns, lambda: tf.constant(-1)))
    assert [int(choose(tf.constant(n))) for n in (0, 1, 2, 9, -4)] == [
        10,
        -1,
        30,
        -1,
        -1,
    ]


@everywhere
def test_while_loop_goes_on(place):
    def count(n):
        return tf.while_loop(
            lambda k, total: k < n, lambda k, total: (k + 1, total + k), (0, 0)
        )

    steps, total = place(count)(tf.constant(5))
    assert (int(steps), int(total)) == (5, 10)


@everywhere
def test_while_loop_stops_at_its_limit(place):
    def double(x):
        return tf.while_loop(
            lambda k: k < 1000, lambda k: [k * 2], [x], maximum_iterations=4
        )

    (result,) = place(double)(tf.constant(3))
    assert int(result) == 48


@everywhere
def test_map_scan_and_fold_go_through_rows(place):
    rows = tf.constant([1.0, 2.0, 3.0])
    program = place(
        lambda x: (
            tf.map_fn(lambda r: r * 2, x),
            tf.scan(lambda a, r: a + r, x),
            tf.scan(lambda a, r: a - r, x, initializer=0.0, reverse=True),
            tf.scan(lambda a, r: a - r, x, reverse=True),
            tf.foldl(lambda a, r: a - r, x),
            tf.foldr(lambda a, r: a - r, x),
            tf.vectorized_map(lambda r: r + 1, x),
        )
    )
    found = [x.numpy().tolist() for x in program(rows)]
    assert found == [
        [2, 4, 6],
        [1, 3, 6],
        [-6, -5, -3],
        [0, 1, 3],
        -4,
        0,
        [2, 3, 4],
    ]


def test_python_functions_get_values():
    assert tf.py_function(lambda x: float(x) + 1, [1.0], tf.float32).numpy() == 2
    many = tf.py_function(lambda: (1, 2.5), [], [tf.int32, tf.float32])
    assert [x.dtype for x in many] == [np.int32, np.float32]
    assert tf.numpy_function(lambda: None, [], []) is None
    (only,) = tf.numpy_function(lambda: np.arange(3), [], [tf.int32])
    assert only.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize("call", [tf.py_function, tf.numpy_function])
def test_functions_that_call_python_functions_are_run_by_python(call, autograph):
    values = []

    @tf.function(autograph=autograph)
    def program(x):
        return call(lambda y: values.append(float(y)) or y * 2, [x + 1], tf.float32)

    assert [float(program(tf.constant(x))) for x in (1.0, 2.0)] == [4.0, 6.0]
    assert values == [2.0, 3.0]


def test_python_function_without_results_is_part_of_the_program():
    values = []

    @tf.function
    def program(x):
        tf.py_function(lambda y: values.append(float(y)), [x], [])
        return x + 1

    assert [float(program(tf.constant(x))) for x in (1.0, 2.0)] == [2.0, 3.0]
    jax.effects_barrier()
    assert values == [1.0, 2.0]
    assert program.trace_count == 1


def test_gradients_of_ones_own_are_used():
    @tf.custom_gradient
    def clipped(x):
        return x * x, lambda upstream: tf.clip_by_value(upstream * 2 * x, -1.0, 1.0)

    @tf.function
    def program(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = clipped(x)
        return y, tape.gradient(y, x)

    value, gradient = program(tf.constant(3.0))
    assert (value, gradient) == (9, 1)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_gradients_of_ones_own_have_derivatives(wrap):
    @tf.custom_gradient
    def shifted(x):
        def gradient(upstream):
            @tf.custom_gradient
            def slope(_):
                return -1.1, lambda upstream: -2.1 * upstream

            return upstream * slope(x)

        return x + 10.0, gradient

    @wrap
    def program(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = shifted(x) ** 4.0
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    found = [float(value) for value in program(tf.constant(1.0))]
    # As TensorFlow 2.21 answers.
    assert found == pytest.approx([-5856.4, -9423.48])


def test_gradients_of_ones_own_are_as_many_as_arguments():
    @tf.custom_gradient
    def identity(x):
        return x, lambda upstream: []

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = identity(x)
    with pytest.raises(ValueError, match="expected to return 1 gradients, but returne"):
        tape.gradient(y, x)


def test_gradients_of_ones_own_cannot_be_by_variables():
    w = tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(x):
        return x * w, lambda upstream: upstream * w

    assert scaled(tf.constant(2.0)) == 6
    with tf.GradientTape() as tape:
        y = scaled(tf.constant(2.0))
    with pytest.raises(TypeError, match=r"which reads Variable:0. Pass their values"):
        tape.gradient(y, w)


def test_gradients_pass_or_stop():
    @tf.function
    def program(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            rounded = tf.grad_pass_through(tf.round)(x) * 2
            stopped = tf.stop_gradient(x) * x
            saved = tf.recompute_grad(tf.sin)(x)
        return [tape.gradient(y, x) for y in (rounded, stopped, saved)]

    gradients = [float(g) for g in program(tf.constant(1.4))]
    assert gradients == pytest.approx([2, 1.4, np.cos(1.4)])


def test_unconnected_gradients_can_be_zero():
    other = tf.Variable(1.0)
    weight = tf.Variable(2.0)

    @tf.function
    def program():
        with tf.GradientTape() as tape:
            loss = weight * weight
        return tape.gradient(
            loss, [weight, other], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )

    assert [float(g) for g in program()] == [4, 0]


@everywhere
def test_print_shows_values(place, capsys):
    tf.function(lambda: None)
    place(lambda x: tf.print("loss:", x, [1], {"a": "b"}, sep="|"))(tf.constant(1.5))
    import jax

    jax.effects_barrier()
    assert capsys.readouterr().err.strip() == "loss:|1.5|[1]|{'a': 'b'}"


def test_print_goes_to_other_streams(capsys):
    tf.print("x", output_stream="stdout", end="!")
    assert capsys.readouterr().out == "x!"


def test_devices_can_be_chosen():
    with tf.device("/CPU:1"):
        assert tf.zeros([1]).device.endswith("CPU:1")
    with tf.device(None):
        assert tf.zeros([1]).device.endswith("CPU:0")


def test_what_has_no_meaning_is_accepted():
    with tf.control_dependencies([None]), tf.init_scope(), tf.name_scope("a") as name:
        assert name == "a/"
    assert tf.group(1, 2) is None
    assert tf.no_op() is None
    assert tf.tuple([1]) == [1]
    assert tf.timestamp() > 0


def test_code_knows_whether_it_is_traced():
    assert tf.executing_eagerly()
    seen = []
    tf.function(lambda: seen.append(tf.inside_function()))()
    assert seen == [True]


def test_functions_take_the_options_of_tensorflow():
    fn = tf.function(jit_compile=True, experimental_relax_shapes=True)(lambda x: x + 1)
    assert fn(tf.constant(1)) == 2
    with pytest.raises(TypeError, match="no option 'nonsense'"):
        tf.function(lambda: None, nonsense=1)


def test_a_variable_is_made_from_another_in_an_init_scope():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    made = []

    @tf.function
    def assign():
        with tf.init_scope():
            if not made:
                options = {"aggregation": tf.VariableAggregation.MEAN}
                made.append(tf.Variable(1.0, **options))
                made.append(tf.Variable(made[0].read_value() + 1, **options))
        return made[1].assign_add(2.0)

    for expected in (4.0, 6.0):
        found = strategy.experimental_local_results(strategy.run(assign))
        assert [float(value) for value in found] == [expected, expected]


@pytest.mark.parametrize("around", [lambda fn: fn, tf.function], ids=["eager", "graph"])
def test_a_variable_is_made_beside_a_merge_call(around):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    made = []

    def replica_fn():
        if not made:
            made.append(tf.Variable(tf.zeros([])))
        tf.distribute.get_replica_context().merge_call(lambda strategy: None)
        made[0].assign_add(1.0, read_value=False)
        return made[0].read_value()

    @around
    def step():
        return strategy.extended.call_for_each_replica(replica_fn)

    with strategy.scope():
        found = strategy.experimental_local_results(step())
    assert [float(value) for value in found] == [1, 1]


def test_a_variable_of_a_traced_value_is_refused_at_the_second_call():
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    @tf.function(autograph=False)
    def step():
        return strategy.run(lambda: tf.Variable(tf.zeros([])).read_value())

    step()
    with pytest.raises(ValueError, match="singleton"):
        step()


def test_both_branches_of_a_condition_may_write_to_an_array():
    @tf.function
    def clipped(x):
        def body(i, array):
            low, high = lambda: array.write(i, 0.0), lambda: array.write(i, x[i])
            return i + 1, tf.cond(x[i] < 0, low, high)

        array = tf.TensorArray(tf.float32, size=3)
        first = tf.constant(0), array
        _, array = tf.while_loop(lambda i, _: i < 3, body, loop_vars=first)
        return array.stack()

    assert clipped(tf.constant([1.0, -2.0, 3.0])).numpy().tolist() == [1, 0, 3]


@everywhere
def test_steps_have_no_gradient(place):
    @place
    def gradients(x):
        steps = (tf.floor, tf.round, tf.math.ceil, tf.math.rint)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            results = [step(x) for step in steps]
            results.append(tf.math.floordiv(x, 2.0))
        return [tape.gradient(result, x) for result in results]

    assert gradients(tf.constant(1.5)) == [None] * 5


@everywhere
def test_gradients_of_complex_numbers_are_those_of_tensorflow(place):
    @place
    def gradients(z):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(z)
            real, whole = tf.abs(z) ** 2, z * z
        weight = tf.constant(1.0 + 1.0j)
        return tape.gradient(real, z), tape.gradient(whole, z, weight)

    real, whole = gradients(tf.constant(1.0 + 2.0j))
    np.testing.assert_allclose(real, 2 + 4j, rtol=1e-6)
    # The weight times the conjugate of the derivative.
    np.testing.assert_allclose(whole, (1 + 1j) * (2 - 4j), rtol=1e-6)


@everywhere
def test_jacobians_of_complex_numbers_are_those_of_tensorflow(place):
    @place
    def jacobians(z):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(z)
            squares = z * z
        return tape.jacobian(squares, z), tape.batch_jacobian(squares, z)

    whole, rows = jacobians(tf.constant([[1.0 + 2.0j]]))
    assert whole.numpy().item() == rows.numpy().item() == 2 - 4j


def test_gradients_of_ones_own_get_complex_numbers_as_in_tensorflow():
    @tf.custom_gradient
    def identity(z):
        return z, lambda upstream: upstream * tf.constant(1j)

    z = tf.constant(1.0 + 2.0j)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = identity(z)
    assert tape.gradient(y, z, tf.constant(2.0 + 0j)) == 2j


@everywhere
def test_gradients_of_ones_own_take_keywords(place):
    @tf.custom_gradient
    def scaled(x, scale=2.0):
        return x, lambda upstream: upstream * scale

    @place
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = scaled(x, scale=3.0)
        return tape.gradient(y, x)

    assert gradient(tf.constant(1.0)) == 3


def test_tapes_watch_only_tensors_and_variables():
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match=r"ndarray, not tf\.Tensor.*Convert"):
            tape.watch(np.ones(2))
        tape.watch([tf.constant(1.0), tf.Variable(1.0)])
