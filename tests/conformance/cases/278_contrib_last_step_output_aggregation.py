"""MultiStepContext.set_last_step_output(name, output, aggregation) reduces over the towers; without an aggregation the output is kept. From the seed's text and release 1.11, not run."""


def py(x):
    """Plain python for a tensor, variable, array or a nest of them."""
    if isinstance(x, dict):
        return {k: py(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [py(v) for v in x]
    if hasattr(x, 'numpy'):
        x = x.numpy()
    if hasattr(x, 'tolist'):
        x = x.tolist()
    if isinstance(x, bytes):
        return x.decode()
    if isinstance(x, list):
        return [py(v) for v in x]
    return x


EXPECTED = {'sum': [10.0], 'mean': [5.0], 'kept': [[4.0], [6.0]], 'named': [4.0], 'n': 2}


def case(tf, np):
    d = tf.contrib.distribute.MirroredStrategy(devices=['CPU:0', 'CPU:1'])
    with d.scope():
        it = d.distribute_dataset(lambda: tf.data.Dataset.range(4).batch(1)).make_one_shot_iterator()
        A = tf.VariableAggregation
        calls = []

        def step(context, x):
            calls.append(1)
            y = d.call_for_each_tower(lambda x: tf.cast(x, tf.float32) * 2., x)
            context.set_last_step_output('sum', y, A.SUM)
            context.set_last_step_output('mean', y, A.MEAN)
            context.set_last_step_output('kept', y)
            context.set_last_step_output('named', y, aggregation=A.ONLY_FIRST_TOWER)
            context.set_non_tensor_output('n', len(calls))
        c = d.run_steps_on_dataset(step, it, iterations=2)
    o = c.last_step_outputs
    return {'sum': py(o['sum']), 'mean': py(o['mean']), 'kept': [py(x) for x in d.unwrap(o['kept'])], 'named': py(o['named']), 'n': c.non_tensor_outputs['n']}
