"""`tf.distribute.experimental.rpc`."""

from mirrax.tf.missing_names import names_of, unavailable

Client = unavailable("tf.distribute.experimental.rpc.Client")
Server = unavailable("tf.distribute.experimental.rpc.Server")

__getattr__ = names_of("tf.distribute.experimental.rpc")
