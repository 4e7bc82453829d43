"""What users already have, as datasets: one module for each library.

No library is imported here. Its objects exist only once it is imported, so each module
looks for its library among those that are.
"""

from mirrax.data.adapters.registry import as_dataset as as_dataset
