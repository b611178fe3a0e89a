"""Agents to evaluate, by what a user writes: an ego bundle, a script, an `.onnx` file, a Stable-Baselines3 `.zip`, a factory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import paths
from macop_aht.deploy.files import bundle_folder, bundle_manifest
from macop_aht.evaluation.bundles import Bundle
from macop_aht.evaluation.evaluate import Agent
from macop_aht.evaluation.matches import Ego, Seats
from macop_aht.policies import resolve
from macop_aht.policies.adapters import as_policy
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.spec import World

ALGORITHMS = ("PPO", "A2C", "DQN")
ALLOWED = (
    "the FOLDER of an ego bundle, scripted:NAME, random, FILE.onnx, FILE.zip of Stable-Baselines3, or MODULE:FACTORY"
)


def scenario_of(texts: Sequence[str]) -> str:
    """The scenario that these agents play, where one of them is a bundle, which says so."""
    told = [manifest.scenario for manifest in map(bundle_manifest, texts) if manifest]
    if not told:
        raise ValueError(
            f"{', '.join(texts)}: no bundle, which would say its scenario; give one, such as --scenario LBF4"
        )
    return told[0]


def load_agents(
    texts: Sequence[str], world: World, scenario: str, selector: str = "meta-test", budget: int | None = None
) -> list[Agent]:
    """Agents of one method from several runs; `selector` and `budget` are for ego bundles.

    A bundle tells the seed of its run; others are numbered in the order given.
    """
    agents = []
    for number, text in enumerate(texts):
        manifest = bundle_manifest(text)
        if manifest is None:
            agents.append(Agent(text, load_agent(text, world, scenario), number))
            continue
        if manifest.scenario != scenario:
            raise ValueError(f"the bundle {text} plays {manifest.scenario}; give --scenario {manifest.scenario}")
        bundle = Bundle(bundle_folder(text), selector, budget)
        bundle.agent(1)  # damaged files and unknown selectors are told of before anything is played
        learner = "ppo" if manifest.method == "ppo" else "q"
        agents.append(Agent(text, bundle, manifest.seed, manifest.method, learner))
    if len({agent.seed for agent in agents}) < len(agents):
        raise ValueError(
            f"agents {', '.join(texts)} come from the seeds {[agent.seed for agent in agents]}; give one of each seed"
        )
    return agents


def load_agent(text: str, world: World, scenario: str) -> Ego:
    """What `text` stands for, in the ego's places."""
    if text.endswith(".zip"):
        return _Trained(_stable_baselines(Path(text)), world)
    module, _, factory = text.partition(":")
    if re.fullmatch(r"[\w.]+:\w+", text) and module not in ("scripted", "zoo") and not text.endswith(".onnx"):
        return as_policy(_made(module, factory, world))
    if (Path(text) / "run.toml").exists():
        raise ValueError(f"{text} is a run; macop export makes a bundle of it, which can be evaluated")
    if not text.startswith(("scripted", "random", "zoo:")) and not text.endswith(".onnx"):
        raise ValueError(f"there is no agent {text!r}; allowed are {ALLOWED}")
    found = resolve(text, world, scenario)
    if len(found) != 1:
        raise ValueError(f"agent {text!r} stands for {len(found)} policies; name one: {ALLOWED}")
    return found[0]


class _Trained:
    """A model that was trained on the environment: it sees all agents of ours as one observation, and acts for all."""

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

    def __call__(self, who: np.ndarray) -> Seats:
        return self

    def act(self, batch: Batch, action: np.ndarray, running: np.ndarray) -> None:
        obs = batch.obs[:, : self._own].reshape(len(action), -1)
        action[:, : self._own] = self._model.predict(obs, deterministic=True)[0].reshape(len(action), self._own)


def _stable_baselines(path: Path) -> Any:
    """A model file holds pickled Python: it is opened because the user has named it, and only then."""
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
    """What `factory(world)` in that module gives."""
    try:
        make = getattr(paths.module(module), factory)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"there is no agent {module}:{factory} ({error}); allowed are {ALLOWED}") from error
    return make(world)
