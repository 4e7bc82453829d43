import pytest

from mirrax import tf


@pytest.fixture(scope="module")
def two():
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def test_name_scopes_are_prefixes_of_variables(two):
    with two.scope(), tf.name_scope("outer"), tf.name_scope("inner") as prefix:
        v = tf.Variable(1.0, name="v")
    copies = two.experimental_local_results(v)
    assert prefix == "outer/inner/"
    assert [v.name, copies[1].name] == ["outer/inner/v:0", "outer/inner/v/replica_1:0"]
    assert tf.Variable(1.0, name="v").name == "v:0"


def test_name_scope_can_be_entered_again():
    with tf.name_scope("a") as a, tf.name_scope("b"), tf.name_scope(a):
        assert tf.Variable(1.0).name == "a/Variable:0"


def test_name_scope_of_a_module_is_its_name():
    class Layer(tf.Module):
        @tf.Module.with_name_scope
        def build(self):
            return tf.Variable(1.0, name="w")

    assert Layer(name="first").build().name == "first/w:0"


def test_a_wrong_name_says_what_to_pass():
    with pytest.raises(ValueError, match=r"must be a string. Received: 3. Pass"):
        tf.name_scope(3)
    with pytest.raises(ValueError, match=r"'a b' is not.*Received: Module\(name='a b'"):
        tf.Module(name="a b")
    with pytest.raises(ValueError, match=r"'2d' is not.*name=None\). Pass a `name`"):
        type("2d", (tf.Module,), {})()
