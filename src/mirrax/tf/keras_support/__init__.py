"""`tf.keras`: Keras 3 on JAX, as TensorFlow programs use it."""
