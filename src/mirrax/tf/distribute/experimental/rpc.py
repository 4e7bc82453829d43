"""`tf.distribute.experimental.rpc`."""

from mirrax.tf.namespaces.missing_names import unavailable

Client = unavailable("tf.distribute.experimental.rpc.Client")
Server = unavailable("tf.distribute.experimental.rpc.Server")
