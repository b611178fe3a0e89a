"""An ego bundle at work, with numpy and onnxruntime alone.

    agent = EgoAgent.load("agents/macop/LBF4", selector="meta-test")
    agent.episode_begin()
    action = agent.act(obs, mask)       # at every step
    agent.episode_end(episode_return)   # the selector learns from it

A selector chooses the head for every episode by what the heads have returned, but for `zero-shot`, which recognises the teammate
and chooses at every step. Without one, `head` is for you to set.

One agent plays with one team, or with `teams` of them at once, each with its own memory and its own choice of heads. Everything
that an agent remembers is in `state`, a dictionary that JSON can hold: a service can keep one for each of its sessions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht import paths

ZERO_SHOT = "zero-shot"
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


class _Bound:
    """A graph whose tensors stay where they are: filling them takes less time than handing them over at every call."""

    def __init__(self, session: Any, inputs: dict[str, np.ndarray], outputs: Sequence[str]) -> None:
        """The inputs are read where they lie; the outputs asked for are in `found`, as many rows as `obs` has."""
        import onnxruntime

        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        shapes = {tensor.name: (tensor.shape[1:], kinds[tensor.type]) for tensor in session.get_outputs()}
        self.found = {name: np.zeros((len(inputs["obs"]), *shapes[name][0]), shapes[name][1]) for name in outputs}
        self._session, self._binding = session, session.io_binding()
        # What is held on to, since the binding does not: arrays that are gone would be read all the same.
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in {**inputs, **self.found}.items()
        }
        for name in inputs:
            self._binding.bind_ortvalue_input(name, self._values[name])
        for name in outputs:
            self._binding.bind_ortvalue_output(name, self._values[name])

    def run(self) -> None:
        self._session.run_with_iobinding(self._binding)


class EgoAgent:
    """The agents that we control, in one team or in several at once."""

    def __init__(
        self, manifest: dict[str, Any], graphs: dict[str, bytes], teams: int, budget: int | None, seed: int
    ) -> None:
        """`graphs` are the contents of agent.onnx and, if there is one, of the selector's file, by name. See `load`."""
        if teams < 1:
            raise ValueError(f"teams is {teams}; give at least 1")
        if budget is not None and (not isinstance(budget, (int, np.integer)) or budget < 1):
            raise ValueError(f"budget is {budget!r}; give a whole number of episodes, at least 1")
        agent, *chooser = (_session(content, name) for name, content in graphs.items())
        _compare(manifest, agent)
        if f"selectors/{ZERO_SHOT}.onnx" in graphs:
            _compare_zero_shot(manifest, chooser[0])
        self.manifest, self._graphs = manifest, graphs
        self._selector: Any = chooser[0] if chooser else None
        self.heads, self.controllable = manifest["heads"], manifest["controllable"]
        asked = {tensor.name: tensor.shape for tensor in chooser[0].get_inputs()} if chooser else {}
        self._by_step, self._by_episode, self._needs_draws = "belief" in asked, "tried" in asked, "draws" in asked
        choices = manifest["run_heads"] if self._by_episode else 0  # zero-shot needs no episodes to choose by
        usual = META_EPISODES * choices
        self.budget = usual if budget is None or not self._by_episode else budget
        self._rng = np.random.default_rng(seed)
        shape = (teams, self.controllable)
        self._memory = np.zeros((*shape, manifest["hidden"]), dtype=np.float32)
        self._last_action = np.full(shape, -1, dtype=np.int64)
        self._tried = np.zeros((teams, choices), dtype=np.float32)
        self._mean_return = np.zeros((teams, choices), dtype=np.float32)
        self._belief = np.zeros((teams, asked["belief"][1] if self._by_step else 0), dtype=np.float32)
        self._head = np.full(teams, -1 if self._by_episode else 0, dtype=np.int64)
        self._best = np.zeros(teams, dtype=np.int64)
        self._place = np.arange(teams * self.controllable)  # of a row, one for every agent of every team
        self._team, self._number = np.divmod(self._place, self.controllable)
        widths = {"obs": len(manifest["observations"]), "mask": len(manifest["actions"])}
        self._axes = {name: _accepted(*shape, width) for name, width in widths.items()}
        obs = np.zeros((*shape, widths["obs"]), dtype=np.float32)
        seen = {"obs": obs, "last_action": self._last_action, "agent": self._number.reshape(shape)}
        own = {**seen, "memory": self._memory}
        self._by_row = {name: array.reshape(len(self._place), *array.shape[2:]) for name, array in own.items()}  # views
        self._decision = _Bound(agent, self._by_row, _DECISION)
        if self._by_step:
            self._recognition = _Bound(self._selector, {**seen, "belief": self._belief}, _RECOGNITION)
        if self._by_episode:
            for team in range(teams):
                self._select(team, 0.0)

    @classmethod
    def load(
        cls,
        path: str | Path,
        selector: str | None = "meta-test",
        teams: int = 1,
        budget: int | None = None,
        seed: int = 0,
    ) -> EgoAgent:
        """The agent in a bundle's folder. `budget` is the number of episodes for choosing a head; without it, 4 for each."""
        folder = bundle_folder(path)
        manifest = read_manifest(folder)
        known = sorted(
            name.split("/")[1].removesuffix(".onnx") for name in manifest["sha256"] if name.startswith("selectors/")
        )
        if selector is not None and selector not in known:
            raise ValueError(f"unknown selector {selector!r}; this bundle has {', '.join(known)}")
        names = ["agent.onnx"] + ([f"selectors/{selector}.onnx"] if selector else [])
        return cls(manifest, {name: bundle_content(folder, manifest, name) for name in names}, teams, budget, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sessions of onnxruntime cannot be pickled or copied: they are made again."""
        return _made_again, (self.manifest, self._graphs, len(self._head), self.budget or None, self.state)

    @property
    def head(self) -> np.ndarray:
        """The head that each team's episode is played with, or with zero-shot its last step: (teams,)."""
        return self._head.copy()

    @head.setter
    def head(self, head: Any) -> None:
        """One for all teams, or (teams,); where there is no selector that decides."""
        if self._selector:
            raise ValueError("a selector chooses the heads of this agent; load it with selector=None to set them")
        given = np.asarray(head)
        if given.dtype.kind not in "iu" or given.shape not in ((), self._head.shape):
            raise ValueError(f"head is {head!r}; give a whole number, or one for each of {len(self._head)} teams")
        self._head[:] = self._within(given)

    @property
    def belief(self) -> np.ndarray:
        """How probable it is that each team's teammates are those of `manifest["zero_shot"]["groups"]`: (teams,G)."""
        if not self._by_step:
            raise ValueError('only a zero-shot selector has a belief; load the agent with selector="zero-shot"')
        groups = len(self.manifest["zero_shot"]["groups"])
        logits = self._belief[:, :groups] + self._belief[:, groups : 2 * groups]
        weight = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        """Forget the last episode; of those teams only, where (teams,) bool is given."""
        chosen = self._chosen(teams)
        self._memory[chosen] = 0.0
        self._last_action[chosen] = -1

    def act(self, obs: Any, mask: Any) -> np.ndarray:
        """The actions of our agents: obs (teams,m,D) and mask (teams,m,A) -> (teams,m), 1 where an action is available.

        For one team, the first axis may be left out, and for one agent of ours the second; the answer has the same axes.
        """
        rows, axes = self._rows("obs", np.asarray(obs, dtype=np.float32))
        allowed = self._rows("mask", np.asarray(mask))[0] != 0
        if np.count_nonzero(np.isfinite(rows)) < rows.size:  # faster than all()
            raise ValueError("obs holds values that are no numbers; look at where they come from")
        self._by_row["obs"][:] = rows
        head = self._head
        if self._by_step:
            self._recognition.run()
            head = self._recognition.found["head"]
        self._decision.run()
        own = self._decision.found["q"][self._place, head[self._team]]
        action = np.where(allowed, own, -np.inf).argmax(axis=1)
        if np.count_nonzero(allowed[self._place, action]) < len(action):  # the best one is available, unless none is
            raise ValueError("mask leaves no action to an agent; there must be at least one")
        self._by_row["memory"][:] = self._decision.found["next_memory"]
        self._by_row["last_action"][:] = action
        if self._by_step:
            self._head[:] = head
            self._belief[:] = self._recognition.found["next_belief"]
        return action.reshape(axes)

    def _rows(self, name: str, array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        """The array as a row for every agent of every team, and the axes that the answer will have."""
        axes = self._axes[name].get(array.shape)
        if axes is None:
            teams, usual = len(self._head), next(iter(self._axes[name]))
            raise ValueError(
                f"{name} has the shape {array.shape}; {self.manifest['scenario']} with {teams} teams needs {usual}. Is it of "
                "another scenario?"
            )
        return array.reshape(len(self._place), -1), axes

    def episode_end(self, returns: Any, teams: np.ndarray | None = None) -> None:
        """Tell what an episode returned; of those teams only, where (teams,) bool is given. The next head is chosen.

        The returns are one for all, one for each team, or one for each of those teams.
        """
        chosen, values = self._chosen(teams), np.asarray(returns, dtype=np.float64)
        if values.shape not in ((), chosen.shape, self._head.shape):
            numbers = " or ".join(map(str, sorted({len(chosen), len(self._head)})))
            raise ValueError(f"returns are {returns!r}; give one number for all, or {numbers}, one for each team")
        values = values[chosen] if values.shape == self._head.shape else np.broadcast_to(values, chosen.shape)
        if not np.isfinite(values).all():
            raise ValueError(f"returns are {returns!r}; they must be numbers")
        if self._by_episode:
            for team, value in zip(chosen.tolist(), values.tolist(), strict=True):
                self._select(team, value)

    def _chosen(self, teams: np.ndarray | None) -> np.ndarray:
        """The numbers of the teams that are meant."""
        if teams is None:
            return np.arange(len(self._head))
        given = np.asarray(teams)
        if given.dtype != np.bool_ or given.shape != self._head.shape:
            raise ValueError(f"teams is {teams!r}; give {len(self._head)} truth values, one for each team")
        return np.flatnonzero(given)

    def _select(self, team: int, last_return: float) -> None:
        feed = {
            "tried": self._tried[team],
            "mean_return": self._mean_return[team],
            "last_head": np.array(self._head[team]),
            "last_return": np.array(last_return, dtype=np.float32),
            "budget": np.array(self.budget, dtype=np.int64),
        }
        if self._needs_draws:
            feed["draws"] = self._rng.standard_normal(len(self._tried[team])).astype(np.float32)
        tried, mean, self._head[team], self._best[team] = self._selector.run(None, feed)
        self._tried[team], self._mean_return[team] = tried, mean

    @property
    def state(self) -> dict[str, Any]:
        """All that the agent remembers, for `restore`."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _REMEMBERED}
        return {**self._identity, **arrays, "draws": self._rng.bit_generator.state}

    @property
    def _identity(self) -> dict[str, Any]:
        """What a state is of: one of another agent, or of another selector, means nothing here."""
        graphs = hashlib.sha256(b"".join(self._graphs.values())).hexdigest()
        return {"scenario": self.manifest["scenario"], "graphs": graphs, "budget": self.budget}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        if state.get("scenario") != self.manifest["scenario"]:
            raise ValueError(
                f"this state is of {state.get('scenario')!r}, the agent plays {self.manifest['scenario']!r}"
            )
        missing = sorted({*_REMEMBERED, *self._identity, "draws"} - set(state))
        if missing:
            raise ValueError(f"this state lacks {', '.join(missing)}; give one that `state` gave")
        if any(state[name] != own for name, own in self._identity.items()):
            raise ValueError(
                "this state is of another bundle, selector or budget; load the agent as the one it was taken of"
            )
        arrays = {name: self._like(name, state[name]) for name in _REMEMBERED}
        self._within(arrays["head"])
        self._rng.bit_generator.state = state["draws"]
        for name, array in arrays.items():
            getattr(self, f"_{name}")[:] = array

    def _like(self, name: str, value: Any) -> np.ndarray:
        """The value as an array of the kind and shape that we have under that name."""
        own = getattr(self, f"_{name}")
        array = np.array(value, dtype=own.dtype)
        if array.shape != own.shape:
            raise ValueError(f"{name} in this state has the shape {array.shape}; this agent needs {own.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} in this state holds values that are no numbers; give one that `state` gave")
        return array

    def _within(self, heads: np.ndarray) -> np.ndarray:
        if not ((heads >= 0) & (heads < self.heads)).all():
            raise ValueError(f"the heads to play are {heads.tolist()}; this agent has 0..{self.heads - 1}")
        return heads


def _made_again(
    manifest: dict[str, Any], graphs: dict[str, bytes], teams: int, budget: int | None, state: dict[str, Any]
) -> EgoAgent:
    """An agent as it was when `state` was taken."""
    agent = EgoAgent(manifest, graphs, teams, budget, seed=0)
    agent.restore(state)
    return agent


def _accepted(teams: int, own: int, width: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The shapes in which rows of that width may come, the usual one first, and the axes of the answer to each."""
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {(teams, own, width): (teams, own)}
    if own == 1:
        shapes[teams, width] = (teams,)
    if teams == 1:
        shapes[own * width,] = (own,) if own > 1 else ()  # as Gymnasium gives it
        shapes[own, width] = (own,)
    return shapes


_DECISION = ["q", "next_memory"]
_RECOGNITION = ["head", "next_belief"]
_REMEMBERED = ("memory", "last_action", "tried", "mean_return", "belief", "head", "best")


def bundle_folder(name: str | Path) -> Path:
    """The path itself, or that bundle among the agents that come with the package, such as `macop/LBF4`."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    try:
        packaged = paths.find("agents") / path
    except FileNotFoundError:
        return path
    return packaged if packaged.exists() else path


def bundle_manifest(name: str | Path) -> dict[str, Any] | None:
    """What a bundle says of itself; None where there is none of that name."""
    folder = bundle_folder(name)
    return read_manifest(folder) if (folder / "manifest.json").is_file() else None


def read_manifest(folder: Path) -> dict[str, Any]:
    """What the bundle in a folder says of itself."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no bundle in {folder}: manifest.json is missing; export one with `macop export`"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != 1:
            raise BundleError(f"{path} is of format {manifest['format']}; this version reads 1. Upgrade macop-aht")
        manifest.setdefault("run_heads", manifest["heads"])  # bundles of before there were common heads
        kinds = {"scenario": str, "heads": int, "run_heads": int, "controllable": int, "hidden": int, "observations": list,
                 "actions": list, "sha256": dict}  # fmt: skip
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


def _compare_zero_shot(manifest: dict[str, Any], selector: Any) -> None:
    """The same for that selector, and the groups must be as many as the belief says."""
    own, width = manifest["controllable"], len(manifest["observations"])
    try:
        described = manifest["zero_shot"]
        groups, parts = len(described["groups"]), described["belief"]
        size = sum(parts.values())
    except (KeyError, TypeError) as error:
        raise BundleError(f"the manifest does not describe zero-shot ({error!r}); export the bundle again") from error
    found = {tensor.name: tuple(tensor.shape[1:]) for tensor in (*selector.get_inputs(), *selector.get_outputs())}
    wanted = {"obs": (own, width), "last_action": (own,), "agent": (own,), "belief": (size,)}
    wanted |= {"head": (), "probability": (groups,), "next_belief": (size,)}
    if found != wanted or parts["prior"] != groups:
        raise BundleError(
            f"zero-shot.onnx has the tensors {found}, the manifest says {wanted}; export the bundle again"
        )


def bundle_content(folder: Path, manifest: dict[str, Any], name: str) -> bytes:
    """A file of a bundle, as its manifest describes it."""
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing from the bundle; export it again")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
        raise BundleError(
            f"{path} is not the file that the manifest describes: its sha-256 differs; export the bundle again"
        )
    return content
