"""The names of functions in a saved model."""

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
SIGNATURE = "signatures."
CALL = "__call__"
