"""The ego agent of a bundle, with numpy and onnxruntime alone.

    agent = EgoAgent.load("macop-plus/LBF4")   # or the folder of a bundle
    agent.episode_begin()
    action = agent.act(obs, mask)              # at every step
    agent.episode_end(episode_return)          # a selector by episode learns from it

A selector chooses the head. `zero-shot` recognises the teammates and chooses at every step; the others choose for every episode,
by what the heads have returned so far. Without a selector, you set `head` yourself.

An agent plays in one team, or in several `teams` at once; every team has its own memory and its own heads. Everything that an
agent remembers is in `state`, a dictionary that JSON can hold: a service can keep one for each of its sessions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from macop_aht.deploy.documents import BundleError
from macop_aht.deploy.files import bundle_content, bundle_folder, read_manifest
from macop_aht.deploy.manifest import AGENT, ZERO_SHOT, Manifest
from macop_aht.episodes.heads import EPISODES_PER_HEAD
from macop_aht.onnx import FormatError, Session

AUTO = "auto"
META_TEST = "meta-test"
LARGEST_RETURN = 1e18  # its square is finite in single precision


class _Bound:
    """A session whose tensors stay in place: filling them takes less time than passing new ones at every call."""

    def __init__(self, session: Session, inputs: dict[str, np.ndarray], outputs: Sequence[str]) -> None:
        """Bind the arrays of `inputs`; after every run the outputs asked for are in `found`, with as many rows as `obs`."""
        import onnxruntime

        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        shapes = {tensor.name: (tensor.shape[1:], kinds[tensor.type]) for tensor in session.raw.get_outputs()}
        self.found = {name: np.zeros((len(inputs["obs"]), *shapes[name][0]), shapes[name][1]) for name in outputs}
        self._session, self._binding, self.name = session, session.raw.io_binding(), session.name
        # The binding does not keep its values alive: without this reference, it would read freed memory.
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in {**inputs, **self.found}.items()
        }
        for name in inputs:
            self._binding.bind_ortvalue_input(name, self._values[name])
        for name in outputs:
            self._binding.bind_ortvalue_output(name, self._values[name])

    def run(self) -> None:
        try:
            self._session.raw.run_with_iobinding(self._binding)
        except Exception as error:  # onnxruntime's own exceptions have no common base
            raise self._session.failed(error) from error


class EgoAgent:
    """The agents that the ego controls, in one team or in several at once."""

    def __init__(self, manifest: Manifest, graphs: dict[str, bytes], teams: int, budget: int | None, seed: int) -> None:
        """See `load`, which checks the graphs: the contents of agent.onnx and, if there is one, of the selector, by name."""
        if teams < 1:
            raise ValueError(f"teams is {teams}; give at least 1")
        if budget is not None and (not isinstance(budget, (int, np.integer)) or budget < 1):
            raise ValueError(f"budget is {budget!r}; give a whole number of episodes, at least 1")
        network, *selector = (_session(content, name) for name, content in graphs.items())
        self.manifest, self._graphs = manifest, graphs
        self._selector = selector[0] if selector else None
        self.heads, self.controllable = manifest.heads, manifest.controllable
        asked = {tensor.name for tensor in selector[0].raw.get_inputs()} if selector else set()
        self._by_step, self._by_episode, self._needs_draws = "belief" in asked, "tried" in asked, "draws" in asked
        choices = manifest.run_heads if self._by_episode else 0  # zero-shot needs no episodes to choose by
        self.budget = EPISODES_PER_HEAD * choices if budget is None or not self._by_episode else budget
        self._rng = np.random.default_rng(seed)
        self._forget(teams, choices)
        self._bind(network)
        if self._by_episode:
            for team in range(teams):
                self._select(team, 0.0)

    def _forget(self, teams: int, choices: int) -> None:
        """Make the arrays of all that is remembered, as they are before the first episode."""
        shape, described = (teams, self.controllable), self.manifest.zero_shot
        size = described.belief.size if self._by_step and described else 0
        self._memory = np.zeros((*shape, self.manifest.hidden), dtype=np.float32)
        self._last_action = np.full(shape, -1, dtype=np.int64)
        self._tried = np.zeros((teams, choices), dtype=np.float32)
        self._mean_return = np.zeros((teams, choices), dtype=np.float32)
        self._belief = np.zeros((teams, size), dtype=np.float32)
        self._head = np.full(teams, -1 if self._by_episode else 0, dtype=np.int64)

    def _bind(self, network: Session) -> None:
        """Bind the arrays to the sessions, a row for every agent of every team."""
        shape = self._last_action.shape
        self._row = np.arange(self._last_action.size)
        self._team, agent = np.divmod(self._row, self.controllable)
        widths = {"obs": len(self.manifest.observations), "mask": len(self.manifest.actions)}
        self._axes = {name: _accepted(*shape, width) for name, width in widths.items()}
        obs = np.zeros((*shape, widths["obs"]), dtype=np.float32)
        seen: dict[str, np.ndarray] = {"obs": obs, "last_action": self._last_action, "agent": agent.reshape(shape)}
        own = {**seen, "memory": self._memory}
        self._by_row = {name: array.reshape(len(self._row), *array.shape[2:]) for name, array in own.items()}  # views
        self._decision = _Bound(network, self._by_row, _DECISION)
        if self._by_step and self._selector:
            self._recognition = _Bound(self._selector, {**seen, "belief": self._belief}, _RECOGNITION)

    @classmethod
    def load(
        cls,
        path: str | Path,
        selector: str | None = AUTO,
        teams: int = 1,
        budget: int | None = None,
        seed: int = 0,
    ) -> EgoAgent:
        """Return the agent of a bundle.

        `path` is a folder, or the name of a bundle that comes with the package, such as "macop-plus/LBF4". `selector` is the name
        of one of its selectors, "auto" for `zero-shot` where the bundle has it and else `meta-test`, or None to set the heads
        yourself. `budget` is the number of episodes that a selector by episode may spend on choosing (default: 4 for each head).
        `seed` is for selectors that draw random numbers.

        Raise `FileNotFoundError` where there is no such bundle, `BundleError` where it is damaged, and `ValueError` for arguments
        that are not allowed.
        """
        folder = bundle_folder(path)
        manifest = read_manifest(folder)
        known = manifest.selectors
        if selector == AUTO:
            selector = ZERO_SHOT if ZERO_SHOT in known else META_TEST
        if selector is not None and selector not in known:
            raise ValueError(f"unknown selector {selector!r}; this bundle has {', '.join(known)}")
        names = [AGENT] + ([f"selectors/{selector}.onnx"] if selector else [])
        return cls(manifest, {name: bundle_content(folder, manifest, name) for name in names}, teams, budget, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sessions of onnxruntime cannot be pickled or copied: they are made again."""
        return _made_again, (self.manifest, self._graphs, len(self._head), self.budget or None, self.state)

    @property
    def head(self) -> np.ndarray:
        """The active head of every team, (teams,): of this episode, or with zero-shot of the last step."""
        return self._head.copy()

    @head.setter
    def head(self, head: Any) -> None:
        """Set the head of all teams, or of each, (teams,); raise `ValueError` where a selector chooses it."""
        if self._selector:
            raise ValueError("a selector chooses the heads of this agent; load it with selector=None to set them")
        given = np.asarray(head)
        if given.dtype.kind not in "iu" or given.shape not in ((), self._head.shape):
            raise ValueError(f"head is {head!r}; give a whole number, or one for each of {len(self._head)} teams")
        self._head[:] = self._within(given)

    @property
    def belief(self) -> np.ndarray:
        """The probability of each of `manifest.zero_shot.groups` being the teammates, (teams,G); `zero-shot` only."""
        described = self.manifest.zero_shot
        if not self._by_step or described is None:
            raise ValueError('only a zero-shot selector has a belief; load the agent with selector="zero-shot"')
        groups = len(described.groups)
        logits = self._belief[:, :groups] + self._belief[:, groups : 2 * groups]
        weight = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        """Begin an episode: forget the memory of the last one. `teams`, (teams,) bool, names some of the teams only."""
        chosen = self._chosen(teams)
        self._memory[chosen] = 0.0
        self._last_action[chosen] = -1

    def act(self, obs: Any, mask: Any) -> np.ndarray:
        """Return the actions of the ego's agents, (teams,m), for obs (teams,m,D) and mask (teams,m,A), 1 where available.

        With one team the first axis may be left out, and with m = 1 the second; the result has the same axes. Raise `ValueError`
        for wrong shapes, for NaN or infinity in obs, and for a mask that leaves an agent no action.
        """
        rows, axes = self._rows("obs", np.asarray(obs, dtype=np.float32))
        allowed = self._rows("mask", np.asarray(mask))[0] != 0
        if not isfinite(np.vdot(rows, rows)) and not np.isfinite(rows).all():  # the first is fast
            raise ValueError("obs contains NaN or infinity; look at where it comes from")
        self._by_row["obs"][:] = rows
        head, belief = self._head, self._belief
        if self._by_step:
            self._recognition.run()
            head, belief = self._recognition.found["head"], self._recognition.found["next_belief"]
            valid_heads(head, self.heads, self._recognition.name)
        self._decision.run()
        own, memory = self._decision.found["q"][self._row, head[self._team]], self._decision.found["next_memory"]
        values = np.where(allowed, own, -np.inf)
        action = values.argmax(axis=1)
        best = values[self._row, action]  # where there is NaN, argmax takes it
        if not isfinite(np.vdot(best, best) + np.vdot(memory, memory) + np.vdot(belief, belief)):
            self._explain(allowed, rows)
        self._by_row["memory"][:] = memory
        self._by_row["last_action"][:] = action
        self._head[:], self._belief[:] = head, belief
        return action.reshape(axes)

    def _explain(self, allowed: np.ndarray, rows: np.ndarray) -> None:
        """Raise the error for a decision that is no number."""
        if not allowed.any(axis=1).all():
            raise ValueError("mask leaves no action to an agent; there must be at least one")
        raise BundleError(
            f"{' or '.join(self._graphs)} gave NaN or infinity, for obs up to {np.abs(rows).max():g} in size; unless that is "
            "too large, export the bundle again"
        )

    def _rows(self, name: str, array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the array as a row for every agent of every team, and the axes that the result will have."""
        axes = self._axes[name].get(array.shape)
        if axes is None:
            teams, usual = len(self._head), next(iter(self._axes[name]))
            raise ValueError(
                f"{name} has the shape {array.shape}; {self.manifest.scenario} with {teams} teams needs {usual}. Is it of "
                "another scenario?"
            )
        return array.reshape(len(self._row), -1), axes

    def episode_end(self, returns: Any, teams: np.ndarray | None = None) -> None:
        """End an episode: tell the selector its return, and let it choose the next head.

        `teams`, (teams,) bool, names some of the teams only. `returns` is one number for all of them, one for each of them, or
        one for each team.
        """
        chosen, values = self._chosen(teams), np.asarray(returns, dtype=np.float64)
        if values.shape not in ((), chosen.shape, self._head.shape):
            numbers = " or ".join(map(str, sorted({len(chosen), len(self._head)})))
            raise ValueError(f"returns are {returns!r}; give one number for all, or {numbers}, one for each team")
        values = values[chosen] if values.shape == self._head.shape else np.broadcast_to(values, chosen.shape)
        if not (np.abs(values) <= LARGEST_RETURN).all():
            raise ValueError(
                f"returns are {returns!r}; they must be finite numbers, at most {LARGEST_RETURN:g} in size"
            )
        if self._by_episode:
            for team, value in zip(chosen.tolist(), values.tolist(), strict=True):
                self._select(team, value)

    def _chosen(self, teams: np.ndarray | None) -> np.ndarray:
        """Return the numbers of the teams that are True."""
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
        assert self._selector is not None
        tried, mean, head = self._selector.run(_SELECTION, feed)
        if not (np.isfinite(tried).all() and np.isfinite(mean).all()):
            raise BundleError(f"{self._selector.name} gave NaN or infinity; export the bundle again")
        self._head[team] = valid_heads(head, self.manifest.run_heads, self._selector.name)
        self._tried[team], self._mean_return[team] = tried, mean

    @property
    def state(self) -> dict[str, Any]:
        """All that the agent remembers, as a dictionary that JSON can hold: see `restore`."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _REMEMBERED}
        return {**self._identity, **arrays, "draws": self._rng.bit_generator.state}

    @property
    def _identity(self) -> dict[str, Any]:
        """What a state belongs to: that of another bundle, selector or budget is refused."""
        graphs = hashlib.sha256(b"".join(self._graphs.values())).hexdigest()
        return {"scenario": self.manifest.scenario, "graphs": graphs, "budget": self.budget}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a `state`; raise `ValueError` where it is not of this bundle, selector, budget and number of teams."""
        if not isinstance(state, dict) or state.get("scenario") != self.manifest.scenario:
            found = state.get("scenario") if isinstance(state, dict) else state
            raise ValueError(f"this state is of {repr(found)[:60]}, the agent plays {self.manifest.scenario!r}")
        missing = sorted({*_REMEMBERED, *self._identity, "draws"} - set(state))
        if missing:
            raise ValueError(f"this state lacks {', '.join(missing)}; give one that `state` gave")
        if any(state[name] != own for name, own in self._identity.items()):
            raise ValueError(
                "this state is of another bundle, selector or budget; load the agent as the one it was taken of"
            )
        arrays = {name: self._like(name, state[name]) for name in _REMEMBERED}
        heads, actions = self.manifest.run_heads if self._by_episode else self.heads, len(self.manifest.actions)
        for name, low, high in (("head", 0, heads - 1), ("last_action", -1, actions - 1), ("tried", 0, np.inf)):
            if not ((arrays[name] >= low) & (arrays[name] <= high)).all():
                raise ValueError(f"{name} in this state is {arrays[name].tolist()}; it must be in {low}..{high}")
        rng = np.random.default_rng(0)
        try:
            rng.bit_generator.state = state["draws"]
        except Exception as error:  # numpy raises what it happens to stumble over
            raise ValueError(f"draws in this state is no state of a random generator ({error!r})") from error
        self._rng = rng
        for name, array in arrays.items():
            getattr(self, f"_{name}")[:] = array

    def _like(self, name: str, value: Any) -> np.ndarray:
        """Return the value as an array of the type and shape that this agent has under that name."""
        own = getattr(self, f"_{name}")
        try:
            array = np.array(value)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{name} in this state is no array ({error})") from error
        if array.shape != own.shape:
            raise ValueError(f"{name} in this state has the shape {array.shape}; this agent needs {own.shape}")
        if array.size and array.dtype.kind not in ("iu" if own.dtype.kind == "i" else "iuf"):
            raise ValueError(f"{name} in this state has the type {array.dtype}; this agent needs {own.dtype}")
        if not (np.abs(array.astype(np.float64)) <= np.finfo(np.float32).max).all():
            raise ValueError(f"{name} in this state contains NaN or infinity; give one that `state` gave")
        return array.astype(own.dtype)

    def _within(self, heads: np.ndarray) -> np.ndarray:
        if not ((heads >= 0) & (heads < self.heads)).all():
            raise ValueError(f"the heads to play are {heads.tolist()}; this agent has 0..{self.heads - 1}")
        return heads


def valid_heads(heads: np.ndarray, count: int, name: str) -> np.ndarray:
    """Return the heads that the selector `name` has chosen; raise `BundleError` where an ego of `count` heads has no such one."""
    found = heads.ravel().tolist()  # for a few numbers, Python is faster
    if min(found) < 0 or max(found) >= count:
        raise BundleError(f"{name} chose the heads {heads.tolist()}; there are 0..{count - 1}. Export the bundle again")
    return heads


def _session(content: bytes, name: str) -> Session:
    try:
        return Session(content, name)
    except FormatError as error:
        raise BundleError(f"{error}; export the bundle again") from error


def _made_again(
    manifest: Manifest, graphs: dict[str, bytes], teams: int, budget: int | None, state: dict[str, Any]
) -> EgoAgent:
    """Return an agent as it was when `state` was taken."""
    agent = EgoAgent(manifest, graphs, teams, budget, seed=0)
    agent.restore(state)
    return agent


def _accepted(teams: int, own: int, width: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Return the allowed shapes of rows of that width, the usual one first, and the axes of the result for each."""
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {(teams, own, width): (teams, own)}
    if own == 1:
        shapes[teams, width] = (teams,)
    if teams == 1:
        shapes[own * width,] = (own,) if own > 1 else ()  # as Gymnasium gives it
        shapes[own, width] = (own,)
    return shapes


_DECISION = ["q", "next_memory"]
_RECOGNITION = ["head", "next_belief"]
_SELECTION = ["next_tried", "next_mean_return", "next_head"]
_REMEMBERED = ("memory", "last_action", "tried", "mean_return", "belief", "head")
