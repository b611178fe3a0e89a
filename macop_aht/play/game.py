"""One game: the ego in its seats, a person or a policy in the others, one episode after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from macop_aht.deploy.manifest import ZERO_SHOT
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import EGO
from macop_aht.episodes.runner import Lockstep, PolicySeats, Seats
from macop_aht.evaluation.bundles import AgentSeats
from macop_aht.evaluation.recordings import PERSON, Recording, bundle_hash
from macop_aht.play.choices import Choice, load_ego, policies
from macop_aht.play.mind import Mind, MindReader
from macop_aht.play.orders import carried_out, idle_action
from macop_aht.scenarios import build, streams
from macop_aht.scenarios.scene import Scene

_ONE = np.ones(1, dtype=np.bool_)


class Game:
    """A game of one page. The caller begins every episode, and steps until it is over."""

    def __init__(
        self, scenario: str, choice: Choice, seed: int, keep: Callable[[Recording], None] | None = None
    ) -> None:
        """`keep` is given every episode that has ended."""
        self.scenario, self.choice, self.world, self.seed = scenario, choice, build(scenario), seed
        self.idle = idle_action(self.world.actions)
        self._count, self._sum, self._keep = 0, 0.0, keep
        self._play, self._rng = Lockstep(self.world, [seed]), np.random.default_rng(seed)
        self._ego = load_ego(choice, scenario)
        self._mind, self._theirs = MindReader(self._ego), policies(scenario, choice.teammate)
        self._seats: list[Seats] = []
        self._steps: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.over = True

    @property
    def seat(self) -> int:
        """Return the number of the agent that a person plays."""
        return self.world.controllable

    @property
    def step_number(self) -> int:
        """Return the number of steps of this episode."""
        return int(self._play.batch.clock[0])

    @property
    def episodes(self) -> int:
        """Return the number of episodes that have ended."""
        return self._count

    @property
    def mean_return(self) -> float | None:
        """Return the mean over the episodes that have ended; None before the first."""
        return self._sum / self._count if self._count else None

    @property
    def score(self) -> float:
        """Return what this episode has returned so far."""
        return float(self._play.batch.score[0])

    @property
    def mask(self) -> list[int]:
        """Return which actions are available to the person, 1 or 0."""
        return self._play.batch.mask[0, self.seat].tolist()

    @property
    def last_actions(self) -> list[int]:
        """Return what all agents have just done; -1 before the first step."""
        return self._play.last_action[0].tolist()

    def scene(self) -> Scene:
        """Return what there is to see."""
        return self.world.scene(self._play.batch.state, 0)

    def mind(self) -> Mind:
        """Return what the agent believes. By zero-shot, it has no head before its first step."""
        mind = self._mind.read()
        return replace(mind, head="") if mind.kind == "belief" and self.step_number == 0 else mind

    def begin(self) -> None:
        """Begin an episode. Who sits in a policy's seat is drawn anew where the spec stands for several."""
        keys = streams.keys([self.seed], streams.TEAMMATE)
        here, own = np.arange(1), np.arange(self.world.controllable)
        if not self._seats:
            ego: Seats
            if isinstance(self._ego, EgoAgent):
                ego = AgentSeats(self._ego)
            else:
                ego = PolicySeats(self._ego, here, own, streams.keys([self.seed], EGO))
            self._seats = [ego]
        theirs = np.arange(self.seat + self.choice.person, self.world.n_agents)
        who = self._theirs[int(self._rng.integers(len(self._theirs)))]
        self._seats[1:] = [PolicySeats(who, here, theirs, keys)] if len(theirs) else []
        self._play.begin(_ONE)
        self._play.running[:] = True
        for seat in self._seats:
            seat.begin(self._play, _ONE)
        self._steps.clear()
        self._mind.episode_begins()
        self._stage = self._stage_now()
        self.over = False

    def _stage_now(self) -> str:
        """Whether the selector is still choosing its head."""
        by_episode = isinstance(self._ego, EgoAgent) and self.choice.selector != ZERO_SHOT
        return "selection" if by_episode and self._count < self._ego.budget else "test"  # type: ignore[union-attr]

    def step(self, wanted: int | None = None) -> None:
        """Play a step. `wanted` is the person's action, None to stay; see `orders.carried_out` for one that is not available."""
        play, batch = self._play, self._play.batch
        for seat in self._seats:
            seat.act(play)
        if self.choice.person:
            order = self.idle if wanted is None else wanted
            if not batch.mask[0, self.seat, order]:
                order = carried_out(order, self.idle, self.mask, self.world, self.scene(), self.seat)
            play.action[0, self.seat] = order
        seen, done = batch.obs[0].copy(), play.action[0].copy()
        self.over = bool(play.step()[0])
        if self._keep:
            self._steps.append((seen, done, float(batch.reward[0])))
        if self.over:
            self._end()

    def _end(self) -> None:
        if self._play.batch.void[0]:  # it came to no result, such as after a lost connection
            return
        for seat in self._seats:
            seat.end(self._play, _ONE)
        self._count += 1
        self._sum += self.score
        if self._keep:
            self._keep(self._recording())

    @property
    def outcome(self) -> str:
        """Return the label of how the episode has ended; "" without success."""
        return self.world.outcome(self._play.batch.state, 0)

    @property
    def won(self) -> bool | None:
        """Return whether the battle was won; None where there is none."""
        found = self.world.info(self._play.batch.state).get("battle_won")
        return None if found is None else bool(found[0])

    def _recording(self) -> Recording:
        obs, actions, rewards = zip(*self._steps, strict=True)
        known = bundle_hash(self._ego.manifest) if isinstance(self._ego, EgoAgent) else ""
        return Recording(
            scenario=self.scenario, agent=self.choice.agent, sha256=known, selector=self.choice.selector,
            stage=self._stage, teammate=PERSON if self.choice.person else self.choice.teammate, seat=self.seat,
            seed=self.seed, episode=self._count - 1, obs=np.array(obs, dtype=np.float32), actions=np.array(actions),
            rewards=np.array(rewards, dtype=np.float32), return_=self.score, outcome=self.outcome, won=self.won,
        )  # fmt: skip
