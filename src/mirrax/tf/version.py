"""`tf.version`: the TensorFlow release whose API this follows."""

VERSION = "2.21.0"
GIT_VERSION = "mirrax"
COMPILER_VERSION = "XLA"
