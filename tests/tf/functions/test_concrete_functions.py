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
    assert triple.structured_input_signature == ((TensorSpec([]), 3), {})


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


def test_other_kinds_are_refused():
    triple = scaled.get_concrete_function(TensorSpec([None]), 3)
    with pytest.raises(mirrax.errors.SignatureMismatch, match=r"float32\[\]"):
        triple(np.float32(1))


def test_other_counts_are_refused():
    triple = scaled.get_concrete_function(TensorSpec([]), 3)
    with pytest.raises(TypeError, match="takes only the arrays it was created for"):
        triple(np.float32(1), 3)
    with pytest.raises(TypeError, match=r"0 arrays, and unexpected \['factor'\]"):
        triple(factor=3)


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
