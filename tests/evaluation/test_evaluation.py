"""What groups do, and what a run's summary says of it."""

import gzip
import json
import time
from zlib import crc32

import gymnasium as gym
import numpy as np
import pytest
import torch

import macop_aht
from macop_aht import zoo
from macop_aht.cli import main
from macop_aht.deploy.manifest import RunGroups
from macop_aht.episodes.matches import play
from macop_aht.evaluation.bundles import Bundle
from macop_aht.evaluation.evaluate import Agent, compare, evaluate
from macop_aht.evaluation.rows import Row, convert_rows, read_rows, write_rows
from macop_aht.export.bundle import RunInfo, write_bundle
from macop_aht.learner.networks import Ego, Shape, Stack, weights
from macop_aht.methods.behaviour import watch_self_play
from macop_aht.onnx import write
from macop_aht.policies import resolve
from macop_aht.policies.adapters import as_policy
from macop_aht.scenarios import LevelBasedForaging, build
from macop_aht.scenarios.batch import Batch
from tests.helpers import graph_of, put

CPU = torch.device("cpu")


def outcomes(scenario, script, episodes=20):
    """The outcomes of a scripted team, episode by episode."""
    world = build(scenario)
    (policy,) = resolve(f"scripted:{script}", world)
    return play(world, policy, [policy], episodes).outcomes[0].tolist()


def test_rows_are_read_as_they_were_written(tmp_path):
    common = {"scenario": "SMAC1", "teammate": "fcp/0/0/1", "tier": "seen", "stage": "test"}
    rows = [
        Row(method="macop", learner="q", preset="paper", seed=3, generator="fcp", episode=7, return_=0.1 + 0.2, length=60,
            outcome='beat 0, "1"', won=True, commit="abc+", **common),
        Row(method="m", won=False, **common),
        Row(method="m", **common),
    ]  # fmt: skip
    for name in ("rows.csv", "rows.csv.gz"):
        write_rows(rows, tmp_path / name)
        assert read_rows(tmp_path / name) == rows
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0] == (
        "method,learner,preset,seed,scenario,teammate,generator,tier,stage,episode,return,length,outcome,won,commit,format"
    )
    assert lines[3].endswith(",0,0.0,0,,,,2")
    (tmp_path / "rows.csv").write_text("\n".join([lines[0], lines[1].replace(",60,", ",sixty,")]))
    with pytest.raises(ValueError, match="is damaged"):
        read_rows(tmp_path / "rows.csv")
    (tmp_path / "cut.csv.gz").write_bytes((tmp_path / "rows.csv.gz").read_bytes()[:-20])
    with pytest.raises(ValueError, match="is damaged"):
        read_rows(tmp_path / "cut.csv.gz")
    (tmp_path / "rows.csv").write_text("agent,seed\n")
    with pytest.raises(ValueError, match="has the columns"):
        read_rows(tmp_path / "rows.csv")


def test_rows_of_the_earlier_format_are_brought_over(tmp_path):
    rows = [
        Row(method="m", scenario="LBF4", teammate="random", tier="other", stage="test", episode=e) for e in range(3)
    ]
    for name in ("rows.csv", "rows.csv.gz"):
        path = tmp_path / name
        write_rows(rows, path)
        assert not convert_rows(path)
        opened = gzip.open if name.endswith(".gz") else open
        with opened(path, "rt", newline="") as file:
            lines = [line.rsplit(",", 1)[0] for line in file.read().splitlines()]
        with opened(path, "wt", newline="") as file:
            file.write("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match=f"macop convert .*{name}"):
            read_rows(path)
        assert convert_rows(path)
        assert read_rows(path) == rows
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(text.replace(",2\n", ",9\n").replace(",2\r\n", ",9\r\n"))
    with pytest.raises(ValueError, match="format 9; this version reads 2"):
        read_rows(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("scenario", "script", "outcome"),
    [
        ("LBF4", "corner-ne", "food 0,5"),
        ("LBF4", "corner-sw", "food 5,0"),
        ("PP1", "prey-1", "prey 1"),
        ("PP2", "prey-3", "prey 3"),
        ("CN2", "landmark-0", "landmarks 1 0"),  # it is the teammate that goes to landmark 0
        ("SMAC1", "left-first", "beat 0"),
    ],
)
def test_outcomes_are_what_scripts_say_they_do(scenario, script, outcome):
    found = outcomes(scenario, script)
    most = max(set(found), key=found.count)
    assert found.count(most) >= 12
    assert most.startswith(outcome)


def test_nothing_done_is_no_outcome():
    world = build("CN2")
    batch = Batch(world, 1)
    batch.reset()
    assert world.outcome(batch.state, 0) == ""
    for scenario in ("LBF4", "LBF1", "PP1", "SMAC1", "SMAC2"):
        world = build(scenario)
        batch = Batch(world, 1)
        batch.reset()
        assert world.outcome(batch.state, 0) == ""


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
    assert len(figures["self_play"]) == len(figures["best_head"]) == len(figures["outcomes"]) == len(figures["groups"])
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


# --- Evaluating anybody's agent


def test_rows_do_not_depend_on_the_batch_or_on_the_others():
    world = build("CN3")
    mates, ego = resolve("scripted+noisy=0.2", world), resolve("random", world)[0]
    played = play(world, ego, mates, episodes=6, seed=3)
    for size in (1, 5, 1_000):
        again = play(world, ego, mates, 6, 3, size)
        np.testing.assert_array_equal(again.returns, played.returns)
        np.testing.assert_array_equal(again.lengths, played.lengths)
    alone = play(world, ego, mates[1:2], 6, 3)
    np.testing.assert_array_equal(alone.returns[0], played.returns[1])
    assert not np.array_equal(play(world, ego, mates, 6, 4).lengths, played.lengths)


def test_evaluating_a_script_knows_who_it_gets_on_with(tmp_path, capsys):
    own = tmp_path / "ne.csv"
    assert (
        main(["evaluate", "scripted:corner-ne", "--scenario", "LBF4", "--teammates", "scripted", "--csv", str(own)])
        == 0
    )
    printed = capsys.readouterr().out
    assert "| seen | 1 | 32 |" in printed  # itself
    assert "| scripted | 7 | 224 |" in printed
    rows = read_rows(own)
    by_mate = {
        name: np.mean([row.return_ for row in rows if row.teammate == name]) for name in {row.teammate for row in rows}
    }
    assert by_mate["scripted:corner-ne"] == 1.0
    assert by_mate["scripted:corner-sw"] == 0.0
    other = tmp_path / "random.csv"
    command = ["evaluate", "random", "--scenario", "LBF4", "--teammates", "scripted", "--seen", "scripted:nearest"]
    assert main([*command, "--csv", str(other)]) == 0
    assert "| seen | 1 | 32 |" in capsys.readouterr().out
    assert main(["compare", str(own), str(other)]) == 0
    assert "8 teammates in common" in capsys.readouterr().out


def test_tiers_tell_what_an_agent_has_met(tmp_path, monkeypatch, capsys):
    """Groups it was trained with, others of their generator, other generators, scripts, anything else."""
    for k, name in enumerate(("macop/0", "macop/1", "lipo/0")):
        put(tmp_path, "LBF4", name, write(graph_of(seed=k)), split="train" if k == 0 else "test")
    monkeypatch.setenv("MACOP_ZOO", str(tmp_path))
    rows = evaluate(
        Agent("mine", resolve("random", build("LBF4"))[0]), "LBF4",
        ["zoo:all", "zoo:macop/1+noisy=0.5", "scripted:nearest", "random"], episodes=2, seen=["zoo:train"],
    )  # fmt: skip
    tiers = {row.teammate: row.tier for row in rows}
    assert tiers["zoo:macop/0"] == "seen"
    assert tiers["zoo:macop/1"] == "unseen"
    assert tiers["zoo:lipo/0"] == "unseen generator"
    assert tiers["scripted:nearest"] == "scripted"
    assert tiers["random"] == "other"
    noisy = next(name for name in tiers if "noisy" in name)
    assert tiers[noisy] == "unseen"
    # A bundle says itself what it has met: the groups of its run, by the files of a zoo that they are.
    world = build("LBF4")
    ego = Ego(Shape.of(world), heads=2)
    groups = RunGroups("lipo", ("0/1",), {"0/1": ("0" * 64, zoo.card("LBF4", "macop/1").sha256)})
    write_bundle(tmp_path / "bundle", weights(ego), world, RunInfo("LBF4", "finetune", 0, groups))
    rows = evaluate(Agent("mine", Bundle(tmp_path / "bundle")), "LBF4", ["zoo:all"], episodes=2)
    assert {row.teammate: row.tier for row in rows} == {
        "zoo:macop/0": "unseen generator", "zoo:macop/1": "seen", "zoo:lipo/0": "unseen",
    }  # fmt: skip
    twice = [tmp_path / "a" / "best.onnx", tmp_path / "b" / "best.onnx"]
    for k, path in enumerate(twice):
        path.parent.mkdir()
        path.write_bytes(write(graph_of(seed=k)))
    with pytest.raises(ValueError, match=r"two teammates are called 'best\.onnx'"):
        evaluate(Agent("mine", resolve("random", build("LBF4"))[0]), "LBF4", [str(path) for path in twice], 2)


def test_a_report_is_one_page_with_everything_in_it(tmp_path):
    page = tmp_path / "report.html"
    command = ["evaluate", "scripted:corner-ne", "--scenario", "LBF4", "--teammates", "scripted", "--episodes", "4"]
    assert main([*command, "--seen", "scripted:corner-ne", "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert 'src="http' not in text
    assert "<td>seen</td><td>1</td><td>4</td>" in text


def test_cross_play_of_scripts(tmp_path, capsys):
    out = tmp_path / "matrix"
    names = ["corner-ne", "corner-nw", "nearest"]
    assert (
        main(["crossplay", "LBF4", *[f"scripted:{name}" for name in names], "--episodes", "8", "--out", str(out)]) == 0
    )
    assert "3 policies: mean return" in capsys.readouterr().out
    header, *rows = (line.split(",") for line in out.with_suffix(".csv").read_text().splitlines())
    assert header == ["ego", *names]
    assert [float(rows[0][1]), float(rows[0][2]), float(rows[1][1])] == [1.0, 0.0, 0.0]
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_cross_play_without_matplotlib_has_no_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("macop_aht.evaluation.crossplay.find_spec", lambda name: None)
    out = tmp_path / "matrix"
    assert main(["crossplay", "LBF4", "scripted:nearest", "--episodes", "1", "--out", str(out)]) == 0
    assert "no plot was written" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["matrix.csv"]


def test_comparing_by_hand():
    def rows(results):
        return [
            Row(method="a", scenario="LBF4", teammate=mate, tier="unseen", stage="test", return_=result, length=5)
            for mate, result in results.items()
        ]

    first, second = rows({"x": 0.5, "y": 0.5, "z": 1.0, "only": 0.0}), rows({"x": 1.0, "y": 0.75, "z": 1.0})
    found = compare(first, second)
    assert (found.teammates, found.better, found.worse) == (3, 2, 0)
    assert found.difference == pytest.approx(0.25)
    with pytest.raises(ValueError, match="no teammate in common"):
        compare(first, rows({"w": 1.0}))


def returns_in_gym(model, mate, episodes):
    """What a model gets in the environment that it was made for, in the worlds of an evaluation with seed 0."""
    returns = []
    for episode in range(episodes):
        env = gym.make("MacopCN3-v0", teammate=mate)
        obs, _ = env.reset(seed=(crc32(f"0 {mate}".encode()) << 20) + episode)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(model.predict(obs, deterministic=True)[0])
            total, over = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def test_any_agent_can_be_evaluated(tmp_path, monkeypatch, capsys):
    """Ten lines of one's own, and a model of Stable-Baselines3."""
    (tmp_path / "mine.py").write_text(
        "def north(world):\n    def act(obs, mask):\n        return (mask[:, 1] == 1).astype(int)\n    return act\n"
    )
    monkeypatch.chdir(tmp_path)
    few = ["--scenario", "LBF4", "--teammates", "scripted:corner-ne", "--episodes", "4"]
    assert main(["evaluate", "mine:north", *few]) == 0
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    for scenario in ("LBF4", "CN3"):  # in CN3 it acts for two
        model = stable_baselines3.PPO(
            "MlpPolicy", gym.make(f"Macop{scenario}-v0"), n_steps=8, batch_size=8, device="cpu"
        )
        model.save(tmp_path / f"{scenario}.zip")
    assert main(["evaluate", "LBF4.zip", *few, "--html", "new/page.html"]) == 0
    assert (tmp_path / "new" / "page.html").exists()
    in_cn3 = ["--scenario", "CN3", "--teammates", "scripted", "--episodes", "3", "--csv", "rows.csv"]
    assert main(["evaluate", "CN3.zip", *in_cn3]) == 0
    (mate,) = {row.teammate for row in read_rows(tmp_path / "rows.csv")} & {"scripted:nearest"}
    returns = [row.return_ for row in read_rows(tmp_path / "rows.csv") if row.teammate == mate]
    assert returns == pytest.approx(returns_in_gym(model, mate, 3))
    capsys.readouterr()
    many = gym.make("MacopLBF4-v0")
    many.action_space = gym.spaces.Discrete(5000)
    stable_baselines3.PPO("MlpPolicy", many, n_steps=8, batch_size=8, device="cpu").save(tmp_path / "many.zip")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").touch()
    (tmp_path / "broken.zip").write_bytes(b"PK nonsense")
    for agent, message in (
        ("mine:south", "there is no agent mine:south"),
        ("nobody:here", "there is no agent nobody:here"),
        ("broken.zip", "is no model of PPO"),
        ("CN3.zip", "Is it of another one?"),
        ("missing.zip", "there is no agent at missing.zip"),
        ("scripted", "stands for 8 policies"),
        ("scripted:corner", "did you mean"),
        ("many.zip", "the model acts by Discrete(5000); this scenario has [5] actions"),
        ("macop/LBF9", "there is no agent 'macop/LBF9'"),
        ("run", "run is a run folder; evaluate the bundle"),
    ):
        assert main(["evaluate", agent, *few]) == 2
        assert message in capsys.readouterr().err


# --- Ego bundles


def walking_bundle(folder, scenario="LBF4", seed=0):
    """An ego whose heads each take one action for ever: north, south, west, east."""
    world = build(scenario)
    ego = Ego(Shape.of(world), 4, torch.Generator().manual_seed(0))
    with torch.no_grad():
        ego.heads.head2.weight.zero_()
        ego.heads.head2.bias.copy_(torch.eye(5)[1:])
    write_bundle(folder, weights(ego), world, RunInfo(scenario, "macop", seed))
    return Bundle(folder)


def test_a_bundle_chooses_a_head_for_each_teammate_and_keeps_it(tmp_path, passing):
    macop_aht.register("Lane", LevelBasedForaging(shape=(2, 9), foods=((0, 0), (0, 8)), spawn=((0, 4), (1, 4))))
    agent, world = Agent("ours", walking_bundle(tmp_path / "0", "Lane")), build("Lane")
    mates = [resolve(f"scripted:corner-{corner}", world, "Lane")[0] for corner in ("nw", "ne")]
    rows = evaluate(agent, "Lane", [mate.name for mate in mates], 6)
    assert rows == evaluate(agent, "Lane", [mate.name for mate in mates], 6, size=5)
    for mate, west_or_east in zip(mates, (3, 4), strict=True):
        choosing, tested = (
            [row for row in rows if row.teammate == mate.name and row.stage == stage] for stage in ("selection", "test")
        )
        assert [row.episode for row in choosing] == list(range(16))
        means = [np.mean([row.return_ for row in choosing[head::4]]) for head in range(4)]  # in turn over the heads
        assert 1 + int(np.argmax(means)) == west_or_east
        alone = play(world, as_policy(lambda obs, mask, to=west_or_east: np.full(len(obs), to)), [mate], 6)
        assert [row.return_ for row in tested] == alone.returns[0].tolist()
        assert alone.returns.sum() > 0


def test_bundles_of_several_runs_on_the_command_line(tmp_path, capsys):
    folders = [str(walking_bundle(tmp_path / str(seed), seed=seed).folder) for seed in (3, 5)]
    few = ["--scenario", "LBF4", "--teammates", "scripted", "--episodes", "2"]
    rows = tmp_path / "rows.csv"
    assert main(["evaluate", *folders, *few, "--budget", "4", "--csv", str(rows)]) == 0
    told = capsys.readouterr().out
    assert "With 2 seeds, such intervals cover the true value in" in told
    found = read_rows(rows)
    assert {row.seed for row in found} == {3, 5}
    assert {(row.method, row.learner, row.generator, row.won) for row in found} == {("macop", "q", "", None)}
    assert f"{sum(row.stage == 'selection' for row in found)} episodes were spent" in told
    assert main(["evaluate", *folders, *few[2:], "--budget", "4"]) == 0  # a bundle says its scenario itself
    assert capsys.readouterr().out == told
    for wrong, complaint in (
        ([folders[0], *few, "--selector", "nose"], "this bundle has"),
        ([folders[0], folders[0], *few], "give one of each seed"),
        ([folders[0], *few[:1], "LBF1", *few[2:]], "give --scenario LBF4"),
        (["random", *few[2:]], "name it, such as --scenario LBF4"),
    ):
        assert main(["evaluate", *wrong]) == 2
        assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_sixteen_teammates_take_less_than_five_seconds():
    command = ["evaluate", "scripted:nearest", "--scenario", "LBF4", "--episodes", "32", "--teammates"]
    command += [f"zoo:{name}" for name in zoo.list("LBF4")[:16]]
    assert len(command) == 7 + 16
    began = time.perf_counter()
    assert main(command) == 0
    assert time.perf_counter() - began < 5.0
