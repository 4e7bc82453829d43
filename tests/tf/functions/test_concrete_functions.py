"""Functions with some of their arguments settled."""

import numpy as np
import pytest

import mirrax
from mirrax import TensorSpec, tf


@tf.function
def scaled(x, factor, shift=0.0):
    return factor * x + shift


def test_python_values_are_settled():
    triple = scaled.get_concrete_function(TensorSpec([]), 3)
    assert float(triple(np.float32(5))) == 15.0
    expected = (TensorSpec([], name="x"), 3, 0.0), {}
    assert triple.structured_input_signature == expected


def test_array_stands_for_its_kind():
    triple = scaled.get_concrete_function(np.ones(2, np.float32), 3)
    np.testing.assert_array_equal(triple(np.full(2, 2, np.float32)), [6.0, 6.0])


def test_arrays_are_given_by_name():
    concrete = scaled.get_concrete_function(
        TensorSpec([]), 2, shift=TensorSpec([], name="offset")
    )
    one, five = np.float32(1), np.float32(5)
    assert float(concrete(one, five)) == 7.0
    assert float(concrete(x=one, offset=five)) == 7.0


def test_integers_fit_a_floating_dtype():
    increased = tf.function(lambda x: x + 1).get_concrete_function(TensorSpec([]))
    assert increased(5).dtype == tf.float32
    assert increased(np.int64(5)).numpy() == 6.0


def test_other_kinds_are_refused():
    triple = scaled.get_concrete_function(TensorSpec([None]), 3)
    with pytest.raises(mirrax.errors.SignatureMismatch, match=r"float32\[\]"):
        triple(np.float32(1))


def test_other_counts_are_refused():
    triple = scaled.get_concrete_function(TensorSpec([]), 3)
    with pytest.raises(TypeError, match="takes only the arrays it was created for"):
        triple(np.float32(1), 3, 0.0, 1)
    with pytest.raises(TypeError, match=r"0 arrays, and \['factor'\]"):
        triple(factor=3)


def test_fixed_arguments_can_be_given_as_they_were():
    triple = scaled.get_concrete_function(TensorSpec([]), 3)
    assert float(triple(np.float32(5), 3)) == float(triple(np.float32(5), factor=3))
    with pytest.raises(TypeError, match=r"`Can not cast 4 to Literal\[3\]`"):
        triple(np.float32(5), factor=4)


def test_names_of_nested_arrays_are_paths():
    # As TensorFlow 2.21.
    @tf.function
    def total(first, *args, **kwargs):
        return first[0] + args[0]

    one = tf.constant(1.0)
    concrete = total.get_concrete_function([one, one], one, tf.constant(1), k={"z": 2})
    assert [spec.name for spec in concrete.inputs] == [
        "first_0",
        "first_1",
        "args_0",
        "args_1",
    ]


def test_equal_names_are_numbered():
    # As TensorFlow 2.21.
    @tf.function
    def difference(x, **kwargs):
        return x - kwargs["a"]

    spec = tf.TensorSpec([], name="x")
    concrete = difference.get_concrete_function(spec, a=spec)
    five, two = tf.constant(5.0), tf.constant(2.0)
    assert concrete(x=five, x_1=two).numpy() == 3.0
    assert concrete(x=five, a=two).numpy() == 3.0


def test_whole_calls_come_before_names_of_arrays():
    # As TensorFlow 2.21.
    concrete = tf.function(lambda x, y: x - y).get_concrete_function(
        x=TensorSpec([], name="y"), y=TensorSpec([], name="x")
    )
    assert concrete(x=tf.constant(5.0), y=tf.constant(2.0)).numpy() == 3.0


def test_variables_are_arguments():
    # As TensorFlow 2.21.
    concrete = tf.function(lambda v: v + 1).get_concrete_function(tf.Variable(1.0))
    assert concrete(tf.Variable(3.0)).numpy() == 4.0


def test_equal_concrete_functions_are_one():
    # As TensorFlow 2.21.
    same = scaled.get_concrete_function(TensorSpec([]), 3)
    assert scaled.get_concrete_function(np.float32(2), 3) is same
    assert scaled.get_concrete_function(TensorSpec([]), 2) is not same
    of_method = Model(2.0).total.get_concrete_function()
    assert Model(3.0).total.get_concrete_function() is not of_method


def test_outputs_are_described():
    # As TensorFlow 2.21.
    count = tf.Variable(0)

    @tf.function
    def parts(x, k=2):
        count.assign_add(1)
        return {"a": x, "b": (tf.reduce_sum(x, 1), [k])}

    concrete = parts.get_concrete_function(TensorSpec([None, 2]))
    assert concrete.output_shapes == {"a": (None, 2), "b": ((None,), [()])}
    assert concrete.output_dtypes == {"a": tf.float32, "b": (tf.float32, [tf.int32])}
    assert [spec.shape for spec in concrete.outputs] == [(None, 2), (None,), ()]
    assert concrete.pretty_printed_signature() == (
        "Input Parameters:\n"
        "  x (POSITIONAL_OR_KEYWORD): "
        "TensorSpec(shape=(None, 2), dtype=tf.float32, name=None)\n"
        "  k (POSITIONAL_OR_KEYWORD): Literal[2]\n"
        "Output Type:\n"
        "  Dict[['a', TensorSpec(shape=(None, 2), dtype=tf.float32, name=None)], "
        "['b', Tuple[TensorSpec(shape=(None,), dtype=tf.float32, name=None), "
        "List[TensorSpec(shape=(), dtype=tf.int32, name=None)]]]]"
    )
    assert count.numpy() == 0


def test_unknown_first_sizes_are_the_same():
    # As TensorFlow 2.21.
    batch = TensorSpec([None, 2])
    concrete = tf.function(lambda x, y: x + y).get_concrete_function(batch, batch)
    assert concrete.output_shapes == (None, 2)


def test_rank_of_outputs_is_unknown_if_that_of_an_argument_is():
    # As TensorFlow 2.21.
    concrete = tf.function(lambda x: 2 * x).get_concrete_function(TensorSpec(None))
    assert concrete.output_shapes == tf.TensorShape(None)
    assert concrete.output_shapes.rank is None


def test_signature_says_what_the_arrays_are():
    @tf.function(input_signature=[TensorSpec([None])])
    def total(x):
        return x.sum()

    assert float(total.get_concrete_function()(np.ones(3, np.float32))) == 3.0


class Model:
    def __init__(self, factor):
        self.factor = factor

    @tf.function(input_signature=[TensorSpec([None])])
    def total(self, x):
        return self.factor * x.sum()


def test_signature_of_a_method_is_about_what_comes_after_the_object():
    assert float(Model(2.0).total(np.ones(3, np.float32))) == 6.0
    assert float(Model(3.0).total(x=np.ones(3, np.float32))) == 9.0
    with pytest.raises(mirrax.errors.SignatureMismatch):
        Model(2.0).total(np.float32(1))


def test_bound_method_has_what_a_function_has():
    method = Model(2.0).total
    assert float(method.get_concrete_function()(np.ones(3, np.float32))) == 6.0
    assert method.python_function is vars(Model)["total"].python_function
    assert method.input_signature == (TensorSpec([None]),)
    assert method.trace_count == method.experimental_get_tracing_count() >= 1


def test_traces_on_replicas_are_counted(two_replicas):
    fn = tf.function(lambda x: x + 1)
    two_replicas.run(fn, (np.float32(1),))
    two_replicas.run(fn, (np.float32(2),))
    assert fn.experimental_get_tracing_count() == 1


def test_function_returns_the_value_of_a_variable():
    # As TensorFlow 2.21: a tensor, which later assignments do not change.
    variable, of_keras = tf.Variable(1.0), tf.keras.Variable(1.0)
    function = tf.function(lambda: (variable, [variable, 2.0], of_keras))
    alone, (inside, _), weight = function()
    variable.assign(5.0)
    of_keras.assign(5.0)
    assert isinstance(alone, tf.Tensor)
    assert (float(alone), float(inside), float(weight)) == (1.0, 1.0, 1.0)


def test_function_returns_a_per_replica_argument(two_replicas):
    context = tf.distribute.get_replica_context
    parts = two_replicas.run(lambda: context().replica_id_in_sync_group + tf.ones([1]))
    returned = tf.function(lambda x: {"x": x})(parts)["x"]
    assert [part.numpy().tolist() for part in returned.values] == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("fn", "sizes", "expected"),
    [
        (lambda a: tf.matmul(a, a), [[None, None]], (None, None)),
        (lambda a, b: a + b, [[None, None], [None]], (None, None)),
        (lambda a, b: tf.stack([a, b]), [[None], [None]], (2, None)),
    ],
    ids=["matmul", "add", "stack"],
)
def test_unknown_sizes_of_arguments_can_agree(fn, sizes, expected):
    # As TensorFlow 2.21 answers.
    signature = list(map(TensorSpec, sizes))
    concrete = tf.function(fn, input_signature=signature).get_concrete_function()
    assert concrete.structured_outputs.shape == expected


def test_graph_of_a_function_is_refused_with_a_replacement():
    concrete = tf.function(lambda x: x).get_concrete_function(tf.constant(1.0))
    with pytest.raises(AttributeError, match=r"ConcreteFunction\.graph.*make_jaxpr"):
        _ = concrete.graph
