"""What several test files need."""

import gymnasium as gym
import pytest

from macop_aht.scenarios import SCENARIOS


@pytest.fixture
def passing():
    """What is registered in the test is forgotten after it: other tests go through all scenarios there are."""
    before = [(registry, dict(registry)) for registry in (SCENARIOS, gym.registry)]
    yield
    for registry, entries in before:
        registry.clear()
        registry.update(entries)
