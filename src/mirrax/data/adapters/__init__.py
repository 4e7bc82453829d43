"""Adapters of other libraries' data.

No library is imported here: its objects exist only once the user has imported it.
"""

from mirrax.data.adapters.registry import as_dataset as as_dataset
