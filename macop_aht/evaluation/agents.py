"""Agents to evaluate, from what a user writes: a bundle, a script, an `.onnx` file, a Stable-Baselines3 `.zip`, a factory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import paths
from macop_aht.deploy.files import bundle_folder, bundle_manifest
from macop_aht.episodes.matches import Ego
from macop_aht.episodes.runner import Lockstep
from macop_aht.evaluation.bundles import Bundle
from macop_aht.evaluation.evaluate import Agent
from macop_aht.evaluation.evaluate import evaluate as evaluate_agent
from macop_aht.evaluation.rows import Row
from macop_aht.policies import resolve
from macop_aht.policies.adapters import as_policy
from macop_aht.policies.prefixes import prefixes
from macop_aht.runs.records import holds_run
from macop_aht.scenarios import SCENARIOS, build
from macop_aht.scenarios.spec import World

ALGORITHMS = ("PPO", "A2C", "DQN")
ALLOWED = (
    "the FOLDER of an ego bundle, scripted:NAME, random, FILE.onnx, FILE.zip of Stable-Baselines3, or MODULE:FACTORY"
)


def usual_teammates(world: World) -> list[str]:
    """Return the teammates of an evaluation that names none: the zoo's test split, and the world's scripts."""
    return ["zoo:test", *(["scripted"] if world.scripts else [])]


def scenario_of(texts: Sequence[str]) -> str:
    """Return the scenario that these agents play, by the first bundle among them. Raises ValueError where none is one."""
    told = [manifest.scenario for manifest in map(bundle_manifest, texts) if manifest]
    if not told:
        raise ValueError(
            f"{', '.join(texts)}: not a bundle, so the scenario is unknown; name it, such as --scenario LBF4"
        )
    if (
        ":" in told[0] and re.sub(r"\W", "_", told[0]) not in SCENARIOS
    ):  # a bundle from elsewhere imports nothing unasked
        raise ValueError(
            f"{texts[0]} plays {told[0]}, an environment that a module of yours makes; confirm it with --scenario {told[0]}"
        )
    return told[0]


@dataclass(frozen=True)
class BundleOptions:
    """How a bundle chooses its heads in an evaluation."""

    selector: str = "meta-test"
    budget: int | None = None  # episodes of choosing per teammate; None: the selector's default


def load_agents(
    texts: Sequence[str], world: World, scenario: str, options: BundleOptions = BundleOptions()
) -> list[Agent]:
    """Return agents of one method from several runs.

    The seed of a bundle is its run's; other agents are numbered in the order given.
    """
    agents = []
    for number, text in enumerate(texts):
        manifest = bundle_manifest(text)
        if manifest is None:
            agents.append(Agent(text, load_agent(text, world, scenario), number))
            continue
        if manifest.scenario != scenario:
            raise ValueError(f"the bundle {text} plays {manifest.scenario}; give --scenario {manifest.scenario}")
        bundle = Bundle(bundle_folder(text), options.selector, options.budget)
        bundle.agent(1)  # damaged files and unknown selectors fail before anything is played
        learner = "ppo" if manifest.method == "ppo" else "q"
        agents.append(Agent(text, bundle, manifest.seed, manifest.method, learner))
    if len({agent.seed for agent in agents}) < len(agents):
        raise ValueError(
            f"agents {', '.join(texts)} come from the seeds {[agent.seed for agent in agents]}; give one of each seed"
        )
    return agents


def evaluate(
    agent: Any,
    scenario: str | None = None,
    teammates: Sequence[str] = (),
    episodes: int = 32,
    seen: Sequence[str] = (),
    options: BundleOptions = BundleOptions(),
    seed: int = 0,
) -> list[Row]:
    """Play an agent with teammates that it has not met, and return a row per episode.

    `agent` is what `macop evaluate` takes (a bundle's folder or shipped name, scripted:NAME, FILE.onnx, FILE.zip,
    MODULE:FACTORY), a policy, a callable `(obs, mask) -> action`, or a Stable-Baselines3 model. `scenario` may be left out for a
    bundle. `teammates` (default: the zoo's test split and the scenario's scripts) and `seen`, those that it was trained with, are
    teammate specs. `episodes` are per teammate. `options` say
    how a bundle chooses its heads.
    """
    if isinstance(agent, (str, Path)):
        scenario = scenario or scenario_of([str(agent)])
        (loaded,) = load_agents([str(agent)], build(scenario), scenario, options)
    else:
        if scenario is None:
            raise ValueError(f"agent is {agent!r}, whose scenario is unknown; name it, such as scenario='LBF4'")
        world = build(scenario)
        trained = callable(getattr(agent, "predict", None)) and not callable(getattr(agent, "act", None))
        player: Ego = _Trained(agent, world) if trained else as_policy(agent)
        loaded = Agent(str(getattr(player, "name", type(agent).__name__)), player)
    chosen = teammates or usual_teammates(build(scenario))
    return evaluate_agent(loaded, scenario, chosen, episodes, seen, seed)


def load_agent(text: str, world: World, scenario: str) -> Ego:
    """Return the agent that `text` names, for the ego's seats."""
    if text.endswith(".zip"):
        return _Trained(_stable_baselines(Path(text)), world)
    module, _, factory = text.partition(":")
    if re.fullmatch(r"[\w.]+:\w+", text) and module not in ("scripted", *prefixes()) and not text.endswith(".onnx"):
        return as_policy(_made(module, factory, world))
    if holds_run(text):
        raise ValueError(f"{text} is a run folder; evaluate the bundle that macop export makes of it")
    specs = ("scripted", "random", *(f"{prefix}:" for prefix in prefixes()))
    if not text.startswith(specs) and not text.endswith(".onnx"):
        raise ValueError(f"there is no agent {text!r}; allowed are {ALLOWED}")
    found = resolve(text, world, scenario)
    if len(found) != 1:
        raise ValueError(f"agent {text!r} stands for {len(found)} policies; name one: {ALLOWED}")
    return found[0]


class _Trained:
    """A model that was trained on the environment: it gets the observations of all the ego's agents as one, and acts for all."""

    def __init__(self, model: Any, world: World) -> None:
        self._model, self._own = model, world.controllable
        wanted, found = (world.controllable * len(world.observations),), model.observation_space.shape
        if found != wanted:
            raise ValueError(
                f"the model takes observations {found}; this scenario gives {wanted}. Is it of another one?"
            )
        space, choices = model.action_space, [len(world.actions)] * world.controllable
        sizes = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", ()))).tolist()
        if sizes != choices:
            raise ValueError(f"the model acts by {space}; this scenario has {choices} actions to choose from")

    def __call__(self, who: np.ndarray) -> _Trained:
        return self

    def begin(self, play: Lockstep, rows: np.ndarray) -> None:
        """Nothing is remembered."""

    def act(self, play: Lockstep) -> None:
        obs = play.batch.obs[:, : self._own].reshape(play.size, -1)
        play.action[:, : self._own] = self._model.predict(obs, deterministic=True)[0].reshape(play.size, self._own)

    def end(self, play: Lockstep, over: np.ndarray) -> None:
        """Nothing is learnt."""


def _stable_baselines(path: Path) -> Any:
    """Load a model. Its file holds pickled Python, which runs: it is opened only because the user has named it."""
    try:
        import stable_baselines3
    except ImportError as error:
        raise ImportError("a .zip needs Stable-Baselines3: pip install 'macop-aht[sb3]'") from error
    if not path.is_file():
        raise FileNotFoundError(f"there is no agent at {path}; allowed are {ALLOWED}")
    problems = []
    for name in ALGORITHMS:
        try:
            return getattr(stable_baselines3, name).load(path, device="cpu")
        except Exception as error:  # a model of another algorithm fails in many ways
            problems.append(f"{name}: {error}")
    raise ValueError(
        f"{path} is no model of {', '.join(ALGORITHMS)} ({'; '.join(problems)}); for others, write MODULE:FACTORY"
    )


def _made(module: str, factory: str, world: World) -> object:
    """What `factory(world)` in that module returns."""
    try:
        make = getattr(paths.module(module), factory)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no agent {module}:{factory} ({error}); allowed are {ALLOWED}") from error
    return make(world)
