"""The teammates of B environments: who plays this episode, and how they act together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import streams
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.binding import bind
from macop_aht.scenarios.spec import MOST
from macop_aht.util import hint


def _unique(names: list[str]) -> list[str]:
    """Return the names with a number from the second of the same name on: a, b, a#2."""
    return [name if (n := names[:i].count(name)) == 0 else f"{name}#{n + 1}" for i, name in enumerate(names)]


class Population:
    """The teammates of a batch of environments.

    When an episode begins, a policy is drawn for it; it stays for `episodes_per_teammate` episodes. In every step, each policy
    is called once, on the rows of all environments that it plays in.
    """

    def __init__(self, policies: list[Policy], batch: Batch, episodes_per_teammate: int) -> None:
        if not (isinstance(episodes_per_teammate, (int, np.integer)) and 1 <= episodes_per_teammate <= MOST):
            raise ValueError(f"episodes_per_teammate is {episodes_per_teammate!r}; give a whole number in 1..{MOST}")
        self.policies, self.batch, self.episodes_per_teammate = policies, batch, episodes_per_teammate
        self.names = np.array(_unique([policy.name for policy in policies]), dtype=object)
        world, size = batch.world, batch.size
        self.first = world.controllable
        self.seats = world.n_agents - world.controllable  # teammates in an environment
        self.who = np.zeros(size, dtype=np.int64)  # index into policies
        self._left = np.zeros(size, dtype=np.int64)  # episodes until the next draw
        self._agent = np.tile(np.arange(self.first, world.n_agents), size)  # (B*places,)
        widest = max(policy.memory_size for policy in policies)
        self._memory = np.zeros((size, self.seats, widest), dtype=np.float32)
        self._last_action = np.full((size, self.seats), -1, dtype=np.int64)
        self._draws = np.zeros((size, self.seats * max(policy.draws for policy in policies)))
        self._key = streams.keys(range(size), streams.TEAMMATE)
        self._draw = bind(streams.uniforms, self._key, batch.episode, batch.clock, self._draws)
        self._pairing_key = streams.keys(range(size), streams.PAIRING)
        self._pick = np.zeros((size, 1))
        self._rows: list[tuple[Policy, np.ndarray]] = []

    def seed(self, seeds: Sequence[int], rows: np.ndarray) -> None:
        """Restart the random streams of the environments in `rows`, (B,) bool; their next episode draws a new teammate."""
        self._key[rows] = streams.keys(seeds, streams.TEAMMATE)
        self._pairing_key[rows] = streams.keys(seeds, streams.PAIRING)
        self._left[rows] = 0

    def begin(self, rows: np.ndarray, chosen: int | None = None) -> None:
        """Begin an episode in the environments in `rows`, (B,) bool, after the batch was reset there.

        `chosen` is the index of the policy that plays there; None draws one where that is due.
        """
        if len(self.policies) > 1:
            self._draw_teammates(rows, chosen)
        if len(self.policies) > 1 or not self._rows:
            self._sort_rows()
        self._memory[rows] = 0.0
        self._last_action[rows] = -1

    def _draw_teammates(self, rows: np.ndarray, chosen: int | None) -> None:
        due = rows & (self._left <= 0) if chosen is None else rows
        streams.uniforms(self._pairing_key, self.batch.episode, self.batch.clock, self._pick)
        drawn = (self._pick[:, 0] * len(self.policies)).astype(np.int64)
        self.who[due] = drawn[due] if chosen is None else chosen
        self._left[due] = self.episodes_per_teammate
        self._left[rows] -= 1

    def _sort_rows(self) -> None:
        """Find the flat rows (environment, seat) of every policy that plays."""
        self._rows = []
        for p in np.unique(self.who):
            rows = np.flatnonzero(np.repeat(self.who == p, self.seats))
            self._rows.append((self.policies[p], rows))

    def index(self, choice: object) -> int:
        """Return the index of the teammate that `options={"teammate": choice}` means: a name, or a number.

        Raises ValueError where there is none.
        """
        names = list(self.names)
        if isinstance(choice, str):
            for name in (choice, f"scripted:{choice}"):
                if name in names:
                    return names.index(name)
        elif isinstance(choice, (int, np.integer)) and 0 <= choice < len(names):
            return int(choice)
        raise ValueError(
            f"options['teammate'] is {choice!r}, which is not in the population; {hint(str(choice), names)}, "
            f"or a number in 0..{len(names) - 1}"
        )

    def act(self, action: np.ndarray, playing: np.ndarray | None = None) -> None:
        """Write the teammates' actions into `action` (B,N); where `playing` (B,) bool is given, only where it is true."""
        batch, rows = self.batch, len(self.who) * self.seats
        if self._draws.shape[1]:
            self._draw()
        obs = batch.obs[:, self.first :].reshape(rows, -1)
        mask = batch.mask[:, self.first :].reshape(rows, -1)
        memory, draws = self._memory.reshape(rows, -1), self._draws.reshape(rows, -1)
        agent, last_action = self._agent, self._last_action.reshape(rows)
        if len(self._rows) == 1 and playing is None:
            policy, _ = self._rows[0]
            before = memory[:, : policy.memory_size]
            chosen, after = policy.act(obs, mask, agent, last_action, before, draws)
            if after is not before:
                before[:] = after
            last_action[:] = chosen
        else:
            chosen = np.zeros(rows, dtype=np.int64)
            everyone = np.ones(rows, dtype=np.bool_) if playing is None else np.repeat(playing, self.seats)
            for policy, own in self._rows:
                at, width = own[everyone[own]], policy.memory_size
                if len(at):
                    given = (obs[at], mask[at], agent[at], last_action[at], memory[at, :width], draws[at])
                    chosen[at], memory[at, :width] = policy.act(*given)
                    last_action[at] = chosen[at]
        action[:, self.first :] = chosen.reshape(-1, self.seats)
