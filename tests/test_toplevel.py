"""What `import macop_aht` offers."""

import numpy as np
import pytest

import macop_aht
from macop_aht.config import ConfigError
from macop_aht.evaluation.evaluate import table


def test_every_name_is_there():
    for name in macop_aht.__all__:
        assert getattr(macop_aht, name) is not None
        assert name in dir(macop_aht)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        macop_aht.nothing  # noqa: B018 - the access is what is tested


def test_evaluate_takes_agents_of_every_kind():
    def north(obs, mask):
        return np.ones(len(obs), dtype=int)

    teammates = ["scripted:corner-ne", "random"]
    rows = macop_aht.evaluate("scripted:corner-ne", "LBF4", teammates, episodes=4)
    assert len(rows) == 8
    assert np.mean([row.return_ for row in rows if row.teammate == "scripted:corner-ne"]) == 1.0
    assert "| seen |" in table(rows)
    assert {row.method for row in macop_aht.evaluate(north, "LBF4", teammates, episodes=1)} == {"north"}
    bundle = macop_aht.evaluate("macop/CN2", teammates=["random"], episodes=2)
    assert [row.stage for row in bundle].count("test") == 2
    in_a_seat = macop_aht.evaluate("agent:macop/CN2@0", "CN2", ["random"], episodes=2)
    assert [row.stage for row in in_a_seat] == ["test", "test"]  # as a policy: no head is chosen
    with pytest.raises(ValueError, match="scenario is unknown"):
        macop_aht.evaluate(north)


def test_a_run_by_a_preset():
    run = macop_aht.MethodRun.from_preset(
        "LBF4", "macop", "paper", seed=3, settings={"ego_steps": 9, "ego": {"ratio": 1.0}}
    )
    assert (run.seed, run.config.ego_steps, run.config.ego.ratio, run.config.teammate_steps) == (3, 9, 1.0, 500_000)
    with pytest.raises(ConfigError, match="did you mean 'ego_steps'"):
        macop_aht.MethodRun.from_preset("LBF4", "macop", settings={"ego_step": 9})
