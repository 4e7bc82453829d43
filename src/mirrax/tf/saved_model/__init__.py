"""`tf.saved_model`: saves and loads objects with functions and variables.

The format is that of `mirrax.train.export`, not TensorFlow's.
"""

from mirrax.tf.saved_model.loading import contains_saved_model as contains_saved_model
from mirrax.tf.saved_model.loading import load as load
from mirrax.tf.saved_model.options import ASSETS_DIRECTORY as ASSETS_DIRECTORY
from mirrax.tf.saved_model.options import (
    DEFAULT_SERVING_SIGNATURE_DEF_KEY as DEFAULT_SERVING_SIGNATURE_DEF_KEY,
)
from mirrax.tf.saved_model.options import SERVING as SERVING
from mirrax.tf.saved_model.options import Asset as Asset
from mirrax.tf.saved_model.options import LoadOptions as LoadOptions
from mirrax.tf.saved_model.options import SaveOptions as SaveOptions
from mirrax.tf.saved_model.saving import save as save
