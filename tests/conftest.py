"""What all tests share: how thorough the property tests are, and an environment that says nothing."""

import os

import pytest
from hypothesis import HealthCheck, settings

# On a busy machine a load takes longer than hypothesis's deadline allows, and its time proves nothing.
_SLOW = (HealthCheck.too_slow,)
settings.register_profile("quick", deadline=None, max_examples=30, suppress_health_check=_SLOW)
settings.register_profile("thorough", deadline=None, max_examples=1_000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(autouse=True)
def _silent_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the developer's shell says: the instance and the configuration in use, proxies."""
    for name in list(os.environ):
        if name.startswith(("TRIBUTARY_", "DAGSTER_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
