"""
How the properties are run.

Without a limit of time, whatever the machine is; with new examples on every run, but in CI
with the same ones.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
