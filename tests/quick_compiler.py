"""Settings with which XLA compiles small programs in less than half the time.

The processes of the tests have them. Those that a test starts have what users have,
unless the test passes `SETTINGS` on, to compare bits.
"""

SETTINGS = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false",
}
