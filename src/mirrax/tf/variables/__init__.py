"""`tf.Variable`, `tf.Module`, initializers and name scopes."""
