"""An ego bundle at work, with numpy and onnxruntime alone.

    agent = EgoAgent.load("agents/macop/LBF4", selector="meta-test")
    agent.episode_begin()
    action = agent.act(obs, mask)       # at every step
    agent.episode_end(episode_return)   # the selector learns from it

One agent plays with one team, or with `teams` of them at once, each with its own memory and its own choice of heads. Everything
that an agent remembers is in `state`, a dictionary that JSON can hold: a service can keep one for each of its sessions.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import places

META_EPISODES = 4  # per head: the budget of a selector


class BundleError(ValueError):
    """A bundle that is damaged, of an unknown format, or not what its manifest says."""


def _session(content: bytes, name: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own exceptions have no common base
        raise BundleError(
            f"{name} cannot be run by this onnxruntime ({error}); is it older than the bundle?"
        ) from error


class EgoAgent:
    """The agents that we control, in one team or in several at once."""

    def __init__(
        self, manifest: dict[str, Any], agent: Any, selector: Any, teams: int, budget: int | None, seed: int
    ) -> None:
        """See `load`."""
        if teams < 1:
            raise ValueError(f"teams is {teams}; give at least 1")
        self.manifest, self._agent, self._selector = manifest, agent, selector
        self.heads, self.controllable = manifest["heads"], manifest["controllable"]
        self.budget = META_EPISODES * self.heads if budget is None else budget
        self._needs_draws = any(tensor.name == "draws" for tensor in selector.get_inputs())
        self._rng = np.random.default_rng(seed)
        shape = (teams, self.controllable)
        self._memory = np.zeros((*shape, manifest["hidden"]), dtype=np.float32)
        self._last_action = np.full(shape, -1, dtype=np.int64)
        self._tried = np.zeros((teams, self.heads), dtype=np.float32)
        self._mean_return = np.zeros((teams, self.heads), dtype=np.float32)
        self._head = np.full(teams, -1, dtype=np.int64)
        self._best = np.zeros(teams, dtype=np.int64)
        for team in range(teams):
            self._select(team, 0.0)

    @classmethod
    def load(
        cls, path: str | Path, selector: str = "meta-test", teams: int = 1, budget: int | None = None, seed: int = 0
    ) -> EgoAgent:
        """The agent in a bundle's folder. `budget` is the number of episodes for choosing a head; without it, 4 per head."""
        folder = bundle_folder(path)
        manifest = _manifest(folder)
        known = sorted(
            name.split("/")[1].removesuffix(".onnx") for name in manifest["sha256"] if name.startswith("selectors/")
        )
        if selector not in known:
            raise ValueError(f"unknown selector {selector!r}; this bundle has {', '.join(known)}")
        contents = [_content(folder, manifest, name) for name in ("agent.onnx", f"selectors/{selector}.onnx")]
        agent, chooser = (
            _session(content, name) for content, name in zip(contents, ("agent.onnx", selector), strict=True)
        )
        _compare(manifest, agent)
        return cls(manifest, agent, chooser, teams, budget, seed)

    @property
    def head(self) -> np.ndarray:
        """The head that each team's episode is played with: (teams,)."""
        return self._head.copy()

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        """Forget the last episode; of those teams only, where (teams,) bool is given."""
        chosen = slice(None) if teams is None else np.asarray(teams, dtype=np.bool_)
        self._memory[chosen] = 0.0
        self._last_action[chosen] = -1

    def act(self, obs: Any, mask: Any) -> np.ndarray:
        """The actions of our agents: obs (teams,m,D) and mask (teams,m,A) -> (teams,m), 1 where an action is available.

        For one team, the first axis may be left out, and for one agent of ours the second; the answer has the same axes.
        """
        width, actions = len(self.manifest["observations"]), len(self.manifest["actions"])
        rows, axes = self._rows("obs", np.asarray(obs, dtype=np.float32), width)
        allowed, _ = self._rows("mask", np.asarray(mask), actions)
        if not np.isfinite(rows).all():
            raise ValueError("obs holds values that are no numbers; look at where they come from")
        if not (allowed != 0).any(axis=-1).all():
            raise ValueError("mask leaves no action to an agent; there must be at least one")
        count = len(rows)
        feed = {
            "obs": rows,
            "last_action": self._last_action.reshape(count),
            "agent": np.tile(np.arange(self.controllable, dtype=np.int64), len(self._head)),
            "memory": self._memory.reshape(count, -1),
        }
        q, memory = self._agent.run(["q", "next_memory"], feed)
        own = q[np.arange(count), np.repeat(self._head, self.controllable)]
        action = np.where(allowed != 0, own, -np.inf).argmax(axis=-1).reshape(self._last_action.shape)
        self._memory, self._last_action = memory.reshape(self._memory.shape), action
        return action.reshape(axes).copy()

    def _rows(self, name: str, array: np.ndarray, width: int) -> tuple[np.ndarray, tuple[int, ...]]:
        """The array as a row for every agent of every team, and the axes that the answer will have."""
        teams, own = self._last_action.shape
        shapes: list[tuple[int, ...]] = [(teams, own, width)]
        shapes += [(teams, width)] if own == 1 else []
        shapes += [(own, width)] if teams == 1 else []
        shapes += [(own * width,)] if teams == 1 else []  # as Gymnasium gives it
        if array.shape not in shapes:
            raise ValueError(
                f"{name} has the shape {array.shape}; {self.manifest['scenario']} with {teams} teams needs {shapes[0]}. Is it of "
                "another scenario?"
            )
        axes = array.shape[:-1] if array.shape != (own * width,) or own == 1 else (own,)
        return array.reshape(teams * own, width), axes

    def episode_end(self, returns: Any, teams: np.ndarray | None = None) -> None:
        """Tell what an episode returned; of those teams only, where (teams,) bool is given. The next head is chosen."""
        chosen = np.arange(len(self._head)) if teams is None else np.flatnonzero(teams)
        values = np.broadcast_to(np.asarray(returns, dtype=np.float64), (len(chosen),))
        if not np.isfinite(values).all():
            raise ValueError(f"returns are {values}; give numbers")
        for team, value in zip(chosen.tolist(), values.tolist(), strict=True):
            self._select(team, value)

    def _select(self, team: int, last_return: float) -> None:
        feed = {
            "tried": self._tried[team],
            "mean_return": self._mean_return[team],
            "last_head": np.array(self._head[team]),
            "last_return": np.array(last_return, dtype=np.float32),
            "budget": np.array(self.budget, dtype=np.int64),
        }
        if self._needs_draws:
            feed["draws"] = self._rng.standard_normal(self.heads).astype(np.float32)
        tried, mean, self._head[team], self._best[team] = self._selector.run(None, feed)
        self._tried[team], self._mean_return[team] = tried, mean

    @property
    def state(self) -> dict[str, Any]:
        """All that the agent remembers, for `restore`."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _REMEMBERED}
        return {"scenario": self.manifest["scenario"], **arrays, "draws": self._rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        if state.get("scenario") != self.manifest["scenario"]:
            raise ValueError(
                f"this state is of {state.get('scenario')!r}, the agent plays {self.manifest['scenario']!r}"
            )
        missing = sorted({*_REMEMBERED, "draws"} - set(state))
        if missing:
            raise ValueError(f"this state lacks {', '.join(missing)}; give one that `state` gave")
        arrays = {name: self._like(name, state[name]) for name in _REMEMBERED}
        if not ((arrays["head"] >= 0) & (arrays["head"] < self.heads)).all():
            raise ValueError(
                f"this state plays the heads {arrays['head'].tolist()}; this agent has 0..{self.heads - 1}"
            )
        self._rng.bit_generator.state = state["draws"]
        for name, array in arrays.items():
            setattr(self, f"_{name}", array)

    def _like(self, name: str, value: Any) -> np.ndarray:
        """The value as an array of the kind and shape that we have under that name."""
        own = getattr(self, f"_{name}")
        array = np.array(value, dtype=own.dtype)
        if array.shape != own.shape:
            raise ValueError(f"{name} in this state has the shape {array.shape}; this agent needs {own.shape}")
        return array


_REMEMBERED = ("memory", "last_action", "tried", "mean_return", "head", "best")


def bundle_folder(name: str | Path) -> Path:
    """The path itself, or that bundle among the agents that come with the package, such as `macop/LBF4`."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    try:
        packaged = places.find("agents") / path
    except FileNotFoundError:
        return path
    return packaged if packaged.exists() else path


def bundle_manifest(name: str | Path) -> dict[str, Any] | None:
    """What a bundle says of itself; None where there is none of that name."""
    folder = bundle_folder(name)
    return _manifest(folder) if (folder / "manifest.json").is_file() else None


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no bundle in {folder}: manifest.json is missing; export one with `macop export`"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != 1:
            raise BundleError(f"{path} is of format {manifest['format']}; this version reads 1. Upgrade macop-aht")
        kinds = {"scenario": str, "heads": int, "controllable": int, "hidden": int, "observations": list, "actions": list,
                 "sha256": dict}  # fmt: skip
        wrong = [name for name, kind in kinds.items() if not isinstance(manifest[name], kind)]
        if wrong or "agent.onnx" not in manifest["sha256"]:
            raise BundleError(f"{path} is damaged (look at {', '.join(wrong) or 'sha256'}); export the bundle again")
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise BundleError(f"{path} is damaged ({error!r}); export the bundle again") from error
    return manifest


def _compare(manifest: dict[str, Any], agent: Any) -> None:
    """The graph must have the sizes that the manifest says."""
    found = {tensor.name: tuple(tensor.shape[1:]) for tensor in (*agent.get_inputs(), *agent.get_outputs())}
    width, actions, hidden = len(manifest["observations"]), len(manifest["actions"]), manifest["hidden"]
    wanted = {"obs": (width,), "last_action": (), "agent": (), "memory": (hidden,)}
    wanted |= {"q": (manifest["heads"], actions), "next_memory": (hidden,)}
    if found != wanted:
        raise BundleError(f"agent.onnx has the tensors {found}, the manifest says {wanted}; export the bundle again")


def _content(folder: Path, manifest: dict[str, Any], name: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing from the bundle; export it again")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
        raise BundleError(
            f"{path} is not the file that the manifest describes: its sha-256 differs; export the bundle again"
        )
    return content
