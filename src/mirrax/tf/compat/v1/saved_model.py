"""`tf.compat.v1.saved_model`: that of version 2, and the names of its constants."""

from mirrax.tf.saved_model import *  # noqa: F403
from mirrax.tf.saved_model import load as load_v2  # noqa: F401
from mirrax.tf.saved_model import options as signature_constants  # noqa: F401
from mirrax.tf.saved_model import options as tag_constants  # noqa: F401
