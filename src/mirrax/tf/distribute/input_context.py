"""`tf.distribute.InputContext`, which prints as TensorFlow's does."""

from mirrax import InputContext as InputContext


def _str(context: InputContext) -> str:
    return (
        f"tf.distribute.InputContext(input pipeline id {context.input_pipeline_id}, "
        f"total: {context.num_input_pipelines})"
    )


InputContext.__str__ = _str  # type: ignore[assignment, method-assign]
