"""Environments that the suite has not written, as users bring them: small ones with known faults, and a stand-in for SMAC."""

import os
import signal

import numpy as np
from gymnasium import spaces

from macop_aht.scenarios import build
from macop_aht.scenarios.batch import Batch


class Walk:
    """Two or more agents on a line, in PettingZoo's parallel form; an episode ends when all stand at 3.

    Every agent is paid 1 for every step at 3. It observes its own place and the step. Subclasses change one thing each.
    """

    actions = spaces.Discrete(2)  # stay, go on
    seen = spaces.Box(0.0, 9.0, (2,), dtype=np.float32)

    def __init__(self, agents=2, limit=6):
        self.possible_agents = [f"walker_{i}" for i in range(agents)]
        self.agents, self.max_cycles = [], limit

    def observation_space(self, agent):
        return self.seen

    def action_space(self, agent):
        return self.actions

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        first = np.random.default_rng(seed).integers(0, 2, len(self.possible_agents))
        self.place = dict(zip(self.possible_agents, first.tolist(), strict=True))
        return self.look(), self.infos()

    def look(self):
        return {agent: np.array([self.place[agent], self.steps], dtype=np.float32) for agent in self.possible_agents}

    def infos(self):
        return {agent: {} for agent in self.possible_agents}

    def pay(self):
        return {agent: float(self.place[agent] == 3) for agent in self.possible_agents}

    def step(self, actions):
        assert set(actions) == set(self.agents), (actions, self.agents)
        self.steps += 1
        for agent, action in actions.items():
            self.place[agent] = min(self.place[agent] + int(action), 3)
        over = all(place == 3 for place in self.place.values())
        cut = self.steps >= self.max_cycles
        if over or cut:
            self.agents = []
        flags = (dict.fromkeys(self.possible_agents, over), dict.fromkeys(self.possible_agents, cut and not over))
        return self.look(), self.pay(), *flags, self.infos()


class Masked(Walk):
    """Whoever stands at 3 can only stay."""

    def infos(self):
        return {
            agent: {"action_mask": np.array([1, self.place[agent] < 3], dtype=np.int8)}
            for agent in self.possible_agents
        }

    def step(self, actions):
        for agent, action in actions.items():
            assert self.infos()[agent]["action_mask"][action], f"{agent} may not do {action}"
        return super().step(actions)


class Leaving(Walk):
    """Whoever arrives at 3 leaves the game."""

    def step(self, actions):
        found = super().step(actions)
        arrived = [agent for agent in self.agents if self.place[agent] == 3]
        if arrived and self.agents:
            self.agents = [agent for agent in self.agents if agent not in arrived]
            found[2].update(dict.fromkeys(arrived, True))
        return found


class Unlike(Walk):
    """The second agent has more actions and a Dict observation, with its mask in it."""

    def observation_space(self, agent):
        if agent == self.possible_agents[0]:
            return self.seen
        inner = {"at": spaces.Discrete(4), "bits": spaces.MultiBinary(2), "pair": spaces.Box(0, 9, (1, 2))}
        return spaces.Dict({"observation": spaces.Dict(inner), "action_mask": spaces.MultiBinary(3)})

    def action_space(self, agent):
        return spaces.Discrete(2) if agent == self.possible_agents[0] else spaces.Discrete(3, start=5)

    def look(self):
        one, two = self.possible_agents[:2]
        place = self.place[two]
        inner = {"at": place, "bits": np.array([1, 0]), "pair": np.full((1, 2), float(self.steps))}
        mask = np.array([1, 1, 0], dtype=np.int8)
        first = np.array([self.place[one], self.steps], dtype=np.float32)
        return {one: first, two: {"observation": inner, "action_mask": mask}}

    def infos(self):
        return {agent: {"action_mask": np.ones(2, dtype=np.int8)} for agent in self.possible_agents[:1]}

    def step(self, actions):
        assert actions[self.possible_agents[1]] in (5, 6), actions
        return super().step({agent: int(action) % 5 for agent, action in actions.items()})


class Forgetful(Walk):
    """Not deterministic: the seed of `reset` changes nothing."""

    def reset(self, seed=None, options=None):
        return super().reset(seed=None)


class Deadly(Walk):
    """The process dies at the third step."""

    def step(self, actions):
        if self.steps == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)


class Failing(Walk):
    """Raises at the third step."""

    def step(self, actions):
        if self.steps == 2:
            raise ZeroDivisionError("the third step")
        return super().step(actions)


class SmacStandIn:
    """SMAC's interface over the suite's combat, with SMAC's peculiarities.

    The seed goes into the constructor. The time limit says `terminated`, and `info["episode_limit"]` comes only with
    `continuing_episode`. An action that is not available fails, and no-op is for the dead only. `lost_at` are steps, counted
    over all episodes, in which the connection is lost.
    """

    def __init__(self, seed=0, continuing_episode=False, lost_at=(), limit=60):
        self._batch = Batch(build("SMAC1", limit=limit), 1)
        self._batch.seed([seed])
        self.continuing_episode, self._lost_at, self._total = continuing_episode, lost_at, 0
        self.episode_limit, self.n_agents = limit, 2
        self.death_tracker_ally = np.zeros(2)

    def get_env_info(self):
        world = self._batch.world
        sizes = {"state_shape": world.state_dim, "obs_shape": len(world.observations), "n_actions": len(world.actions)}
        return {**sizes, "n_agents": self.n_agents, "episode_limit": self.episode_limit}

    def reset(self):
        self._batch.reset()
        return self.get_obs(), self.get_state()

    def close(self):
        pass

    def get_obs(self):
        return [self._batch.obs[0, i].copy() for i in range(self.n_agents)]

    def get_state(self):
        return self._batch.global_state()[0]

    def get_avail_actions(self):
        return [self._batch.mask[0, i].tolist() for i in range(self.n_agents)]

    def step(self, actions):
        for i, action in enumerate(actions):
            assert self.get_avail_actions()[i][action] == 1, f"Agent {i} cannot perform action {action}"
        self._total += 1
        if self._total in self._lost_at:
            return 0, True, {}
        batch = self._batch
        batch.step(np.array([actions]))
        told = {name: values[0].item() for name, values in batch.world.info(batch.state).items()}
        info = {"battle_won": told["battle_won"]}
        if batch.truncated[0] and self.continuing_episode:
            info["episode_limit"] = True
        return float(batch.reward[0]), bool(batch.terminated[0] or batch.truncated[0]), info


def make_walk():
    return Walk()


def make_walk_of_three():
    return Walk(agents=3)


def make_deadly():
    return Deadly()


def make_failing():
    return Failing()


def make_forgetful():
    return Forgetful()


def make_combat(seed):
    return SmacStandIn(seed)


def make_foraging():
    import macop_aht

    return macop_aht.parallel_env("LBF4")
