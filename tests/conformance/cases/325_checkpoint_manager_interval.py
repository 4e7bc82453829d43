"""CheckpointManager with step_counter and checkpoint_interval: numbers count the saves, not the steps; the interval starts at the restored step."""
import os
import tempfile


def err(fn):
    """The category of the exception fn raises."""
    known = ('OutOfRangeError', 'InvalidArgumentError', 'FailedPreconditionError', 'NotFoundError', 'UnimplementedError',
             'NotImplementedError', 'StopIteration', 'KeyError', 'IndexError', 'AttributeError', 'AssertionError',
             'ZeroDivisionError', 'ValueError', 'TypeError', 'RuntimeError')
    try:
        fn()
    except Exception as e:
        for c in type(e).__mro__:
            if c.__name__ in known:
                return c.__name__
        return 'Exception'
    return 'no error'


def case(tf, np):
    folder = tempfile.mkdtemp()
    step = tf.Variable(0)
    c = tf.train.Checkpoint(step=step)

    def manager():
        return tf.train.CheckpointManager(c, folder, max_to_keep=2, step_counter=step, checkpoint_interval=3)

    def name(path):
        return path and os.path.basename(path)
    m = manager()
    out = {'empty': [m.latest_checkpoint, m.checkpoints, m.restore_or_initialize(), m.checkpoint_interval]}
    saved = []
    for _ in range(7):
        step.assign_add(1)
        saved.append(name(m.save()))
    out['saved'] = saved
    out['forced'] = [name(m.save(check_interval=False)), name(m.save(check_interval=False))]
    step.assign_add(1)
    out['forced later'] = name(m.save(check_interval=False))
    out['kept'] = [name(p) for p in m.checkpoints]
    again = manager()
    out['restored'] = [name(again.restore_or_initialize()), step.numpy().item()]
    step.assign_add(2)
    out['early'] = name(again.save())
    step.assign_add(1)
    out['due'] = name(again.save())
    out['no counter'] = err(lambda: tf.train.CheckpointManager(c, folder, 2, checkpoint_interval=3))
    return out
