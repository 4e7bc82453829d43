"""Checkpoints of all kinds of objects, what a restore reports, managers."""

# The programs are data: dense, each read as a whole.
# ruff: noqa

import os
import tempfile

from tests.tf.recorded.error_kinds import error_of as _err


def _dir():
    return tempfile.mkdtemp()


def lists_and_dicts_at_top(tf, np):
    d = _dir()
    c = tf.train.Checkpoint(
        l=[tf.Variable(1.0), tf.Variable(2.0)], d={"x": tf.Variable(3.0)}
    )
    p = c.save(d + "/k")
    e = tf.train.Checkpoint(
        l=[tf.Variable(0.0), tf.Variable(0.0)], d={"x": tf.Variable(0.0)}
    )
    e.restore(p).assert_consumed()
    return [
        [v.numpy() for v in e.l],
        e.d["x"].numpy(),
        isinstance(e.l, list),
        isinstance(e.d, dict),
        len(e.l),
    ]


def write_and_read(tf, np):
    d = _dir()
    v = tf.Variable(1.0)
    c = tf.train.Checkpoint(v=v)
    p = c.write(d + "/w")
    v.assign(2.0)
    c.read(p).assert_consumed()
    return [os.path.basename(p), v.numpy(), int(c.save_counter)]


def save_numbers(tf, np):
    d = _dir()
    c = tf.train.Checkpoint(v=tf.Variable(1.0))
    a, b = (c.save(d + "/x"), c.save(d + "/x"))
    e = tf.train.Checkpoint(v=tf.Variable(0.0))
    e.restore(a)
    return [
        os.path.basename(a),
        os.path.basename(b),
        int(e.save_counter),
        os.path.basename(e.save(d + "/y")),
        os.path.basename(tf.train.latest_checkpoint(d)),
    ]


def chained_status(tf, np):
    d = _dir()
    p = tf.train.Checkpoint(a=tf.Variable(1.0)).save(d + "/x")
    a = tf.Variable(0.0)
    s = tf.train.Checkpoint(a=a).restore(p)
    return [
        s.assert_consumed() is s,
        s.assert_existing_objects_matched() is s,
        s.assert_nontrivial_match() is s,
        s.expect_partial() is s,
        s.initialize_or_restore() is None,
        s.run_restore_ops() is None,
    ]


def deferred(tf, np):
    d = _dir()
    m = tf.Module()
    m.v = tf.Variable([1.0, 2.0])
    p = tf.train.Checkpoint(m=m).save(d + "/x")
    n = tf.Module()
    s = tf.train.Checkpoint(m=n).restore(p)
    e = _err(s.assert_consumed)[0]
    n.v = tf.Variable([0.0, 0.0])
    s.assert_consumed()
    return [e, n.v.numpy()]


def restore_of_none(tf, np):
    v = tf.Variable(1.0)
    c = tf.train.Checkpoint(v=v)
    s = c.restore(None)
    return [
        _err(s.assert_consumed)[0],
        _err(s.assert_existing_objects_matched)[0],
        _err(s.assert_nontrivial_match)[0],
        s.expect_partial() is s,
        s.initialize_or_restore() is None,
        v.numpy(),
    ]


def missing_path(tf, np):
    try:
        tf.train.Checkpoint(v=tf.Variable(1.0)).restore("/no/such/ckpt")
    except tf.errors.NotFoundError:
        return "not found"


def wrong_shape(tf, np):
    d = _dir()
    p = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0])).save(d + "/x")
    return _err(tf.train.Checkpoint(v=tf.Variable(1.0)).restore, p)


def setattr_later(tf, np):
    d = _dir()
    c = tf.train.Checkpoint()
    c.v = tf.Variable(3.0)
    p = c.save(d + "/x")
    e = tf.train.Checkpoint()
    e.restore(p)
    e.v = tf.Variable(0.0)
    return [e.v.numpy()]


def optimizer_slots(tf, np):
    d = _dir()

    def make():
        return (tf.Variable([1.0, 2.0]), tf.keras.optimizers.Adam(0.1))

    v, o = make()
    for _ in range(3):
        o.apply_gradients([(tf.constant([1.0, -1.0]), v)])
    p = tf.train.Checkpoint(v=v, o=o).save(d + "/x")
    w, q = make()
    q.build([w])
    tf.train.Checkpoint(v=w, o=q).restore(p)
    for a, b in ((v, o), (w, q)):
        b.apply_gradients([(tf.constant([1.0, 1.0]), a)])
    return [bool(np.allclose(v.numpy(), w.numpy())), int(q.iterations)]


def generators(tf, np):
    d = _dir()
    g = tf.random.Generator.from_seed(5)
    g.normal([2])
    p = tf.train.Checkpoint(g=g).save(d + "/x")
    a = g.normal([2])
    h = tf.random.Generator.from_seed(9)
    tf.train.Checkpoint(g=h).restore(p)
    return [bool(np.allclose(a, h.normal([2])))]


def checkpoint_state(tf, np):
    d = _dir()
    c = tf.train.Checkpoint(v=tf.Variable(1))
    m = tf.train.CheckpointManager(c, d, max_to_keep=3)
    m.save()
    m.save()
    s = tf.train.get_checkpoint_state(d)
    return [
        os.path.basename(s.model_checkpoint_path),
        [os.path.basename(x) for x in s.all_model_checkpoint_paths],
        tf.train.get_checkpoint_state(_dir()),
        tf.train.latest_checkpoint(_dir()),
    ]


def reader(tf, np):
    d = _dir()
    m = tf.Module()
    m.v = tf.Variable([1.0, 2.0])
    p = tf.train.Checkpoint(m=m).save(d + "/x")
    r = tf.train.load_checkpoint(p)
    n = "m/v/.ATTRIBUTES/VARIABLE_VALUE"
    return [
        r.has_tensor(n),
        r.get_tensor(n),
        r.get_variable_to_shape_map()[n],
        r.get_variable_to_dtype_map()[n].name
        if hasattr(r.get_variable_to_dtype_map()[n], "name")
        else None,
        tf.train.load_variable(p, n),
    ]


def partial_with_children(tf, np):
    d = _dir()
    m = tf.Module()
    m.enc = tf.Module()
    m.enc.w = tf.Variable(3.0)
    m.dec = tf.Module()
    m.dec.w = tf.Variable(4.0)
    p = tf.train.Checkpoint(model=m).save(d + "/x")
    e = tf.Module()
    e.w = tf.Variable(0.0)
    holder = tf.train.Checkpoint(enc=e)
    tf.train.Checkpoint(model=holder).restore(p).expect_partial()
    return [e.w.numpy()]


def cyclic(tf, np):
    d = _dir()
    a, b = (tf.Module(), tf.Module())
    a.b, b.a, b.v = (b, a, tf.Variable(5.0))
    p = tf.train.Checkpoint(a=a).save(d + "/x")
    b.v.assign(0.0)
    tf.train.Checkpoint(a=a).restore(p).assert_consumed()
    return [b.v.numpy()]


def options_and_async(tf, np):
    d = _dir()
    v = tf.Variable(1.0)
    c = tf.train.Checkpoint(v=v)
    o = tf.train.CheckpointOptions(enable_async=True)
    p = c.save(d + "/x", options=o)
    v.assign(2.0)
    c.sync()
    c.restore(p, options=tf.train.CheckpointOptions())
    return [v.numpy()]


def python_state(tf, np):
    d = _dir()

    class S(tf.train.experimental.PythonState):
        def __init__(self):
            self.text = "a"

        def serialize(self):
            return self.text

        def deserialize(self, value):
            self.text = value.decode() if isinstance(value, bytes) else value

    s = S()
    c = tf.train.Checkpoint(s=s)
    s.text = "hello"
    p = c.save(d + "/x")
    s.text = "b"
    c.restore(p)
    return s.text


def moving_averages_saved(tf, np):
    d = _dir()
    v = tf.Variable([1.0, 2.0])
    e = tf.train.ExponentialMovingAverage(0.9)
    e.apply([v])
    v.assign([3.0, 4.0])
    e.apply([v])
    return [e.average(v).numpy(), e.average_name(v), e.name]


def moving_average_variants(tf, np):
    v = tf.Variable(1.0)
    w = tf.Variable(2.0)
    step = tf.Variable(3.0)
    e = tf.train.ExponentialMovingAverage(0.9, num_updates=step)
    e.apply([v, w])
    v.assign(5.0)
    e.apply([v, w])
    z = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    t = tf.Variable(4.0)
    z.apply([t])
    t.assign(8.0)
    z.apply([t])
    return [
        e.average(v).numpy(),
        e.average(w).numpy(),
        e.average(t),
        z.average(t).numpy(),
    ]


def keras_model_checkpoint(tf, np):
    d = _dir()

    def make():
        return tf.keras.Sequential(
            [
                tf.keras.Input((3,)),
                tf.keras.layers.Dense(2),
                tf.keras.layers.BatchNormalization(),
            ]
        )

    a, b = (make(), make())
    p = tf.train.Checkpoint(model=a).save(d + "/x")
    tf.train.Checkpoint(model=b).restore(p).expect_partial()
    x = np.ones((2, 3), "float32")
    return [bool(np.allclose(a(x), b(x)))]


def list_wrappers(tf, np):
    m = tf.Module()
    m.l = []
    m.l.append(tf.Variable(1.0))
    m.l += [tf.Variable(2.0)]
    m.d = {}
    m.d["a"] = tf.Variable(3.0)
    m.t = (1, tf.Variable(4.0))
    m.plain = {"x": 1, "y": [1, 2]}
    return [
        len(m.variables),
        m.l[0:1] == [m.l[0]],
        list(m.d),
        m.plain == {"x": 1, "y": [1, 2]},
        isinstance(m.t, tuple),
        len(m.l + [1]),
    ]


def module_names(tf, np):

    class Dense(tf.Module):
        def __init__(self, n, name=None):
            super().__init__(name=name)
            with self.name_scope:
                self.w = tf.Variable(tf.ones([n]), name="w")

        @tf.Module.with_name_scope
        def __call__(self, x):
            if not hasattr(self, "b"):
                self.b = tf.Variable(0.0, name="b")
            return x * self.w + self.b

    class Net(tf.Module):
        def __init__(self):
            super().__init__(name="net")
            with self.name_scope:
                self.a, self.b = (Dense(1), Dense(2, name="other"))

    n = Net()
    n.a(1.0)
    return [
        [v.name for v in n.variables],
        [m.name for m in n.submodules],
        n.name_scope.name,
        len(n.trainable_variables),
        len(n.non_trainable_variables),
    ]
