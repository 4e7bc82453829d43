"""`tf.function`, control flow and calls of Python."""
