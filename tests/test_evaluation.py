"""What groups do, and what a run's summary says of it."""

import json

import numpy as np
import pytest
import torch

from macop_aht.cli import main
from macop_aht.evaluation.behaviour import watch_self_play
from macop_aht.learner.networks import Shape, Stack
from macop_aht.scenarios import build
from macop_aht.scenarios.batch import Batch
from macop_aht.teammates import resolve
from macop_aht.teammates.protocol import fresh_memory

CPU = torch.device("cpu")


def deeds(scenario, script, episodes=20):
    """The deeds of a scripted team, episode by episode."""
    world = build(scenario)
    batch, (policy,) = Batch(world, episodes), resolve(f"scripted:{script}", world)
    batch.seed(range(episodes))
    batch.reset()
    rng = np.random.default_rng(0)
    memory = fresh_memory(np.tile(np.arange(world.n_agents), episodes), policy.memory_size)
    found = [""] * episodes
    running = np.ones(episodes, dtype=bool)
    while running.any():
        obs, mask = (array.reshape(len(memory), -1) for array in (batch.obs, batch.mask))
        action, memory = policy.act(obs.copy(), mask.copy(), memory, rng.random((len(memory), policy.draws)))
        batch.step(action.reshape(episodes, -1))
        over = (batch.terminated | batch.truncated) & running
        for b in np.flatnonzero(over):
            found[b] = world.deed(batch.state, b)
        running &= ~over
    return found


@pytest.mark.parametrize(
    ("scenario", "script", "deed"),
    [
        ("LBF4", "corner-ne", "food 0,5"),
        ("LBF4", "corner-sw", "food 5,0"),
        ("PP1", "prey-1", "prey 1"),
        ("PP2", "prey-3", "prey 3"),
        ("CN2", "landmark-0", "landmarks 1 0"),  # it is the teammate that goes to landmark 0
        ("SMAC1", "left-first", "beat 0"),
    ],
)
def test_deeds_are_what_scripts_say_they_do(scenario, script, deed):
    found = deeds(scenario, script)
    most = max(set(found), key=found.count)
    assert found.count(most) >= 12
    assert most.startswith(deed)


def test_nothing_done_is_no_deed():
    world = build("CN2")
    batch = Batch(world, 1)
    batch.reset()
    assert world.deed(batch.state, 0) == ""
    for scenario in ("LBF4", "LBF1", "PP1", "SMAC1", "SMAC2"):
        world = build(scenario)
        batch = Batch(world, 1)
        batch.reset()
        assert world.deed(batch.state, 0) == ""


@pytest.mark.parametrize("scenario", ["LBF4", "CN3", "SMAC1"])
def test_behaviour_has_every_groups_episodes_and_ways(scenario):
    world = build(scenario)
    groups = Stack(Shape.of(world), 3, torch.Generator().manual_seed(0))
    behaviours = watch_self_play(world, groups, episodes=5, seed=0, device=CPU, tracked=2)
    assert [len(behaviour.returns) for behaviour in behaviours] == [5, 5, 5]
    for behaviour in behaviours:
        assert len(behaviour.tracks) == 2
        assert all(len(agents) == world.n_agents for agents in behaviour.tracks)
        assert all(
            track.shape[1] == 2 and len(track) <= world.limit + 1 for agents in behaviour.tracks for track in agents
        )
    first = watch_self_play(world, groups, episodes=5, seed=0, device=CPU)[0].tracks[0]
    assert not all(np.array_equal(one, two) for one, two in zip(first, behaviours[1].tracks[0], strict=True))


def test_a_run_from_the_command_line_ends_in_a_summary(tmp_path, capsys):
    folder = tmp_path / "run"
    small = [
        "--teammate-steps",
        "600",
        "--ego-steps",
        "300",
        "--max-iterations",
        "2",
        "--population",
        "2",
        "--test-episodes",
        "4",
    ]
    command = [
        "train",
        "LBF4",
        "--method",
        "macop+",
        "--preset",
        "demo",
        "--threads",
        "1",
        "--out",
        str(folder),
        *small,
    ]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "# macop+ on LBF4, seed 0" in printed
    assert "| 0/0 |" in printed
    figures = json.loads((folder / "summary.json").read_text())
    assert figures["groups"] == ["0/0", "0/1", *[name for name in figures["groups"] if name.startswith("2/")]]
    assert len(figures["self_play"]) == len(figures["best_head"]) == len(figures["deeds"]) == len(figures["groups"])
    header, *rows = (folder / "crossplay.csv").read_text().splitlines()
    assert header.split(",")[1:] == figures["groups"]
    assert len(rows) == figures["heads"]
    for name in ("process.png", "crossplay.png", "ways.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    stored = (folder / "run.toml").read_text()
    assert 'incompatibility = "novelty"' in stored
    assert "demonstrations = 0.2" in stored
    assert main(command) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert main([*command, "--resume", "--alpha-div", "0.3"]) == 2
    assert "describes another run" in capsys.readouterr().err
    for wrong in (["--ego.mixer", "vnd"], ["--alpha-div", "much"], ["--ego.update.bootstrap-at-limit", "maybe"]):
        with pytest.raises(SystemExit):
            main([*command, *wrong])
    assert "neither yes nor no" in capsys.readouterr().err
