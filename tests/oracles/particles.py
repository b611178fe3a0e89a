"""The slow twin of the particle kernels: mpe2's world moves the bodies, plain Python does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import dist
from types import SimpleNamespace
from typing import Literal, NamedTuple

import numpy as np
from mpe2._mpe_utils.core import Agent, Landmark, World
from mpe2._mpe_utils.simple_env import SimpleEnv

Point = tuple[float, float]


class Body(NamedTuple):
    """A moving body; None means mpe2's own sensitivity to actions (5), and no limit to the speed."""

    radius: float
    acceleration: float | None = None
    max_speed: float | None = None


class View(NamedTuple):
    """The figures that the rules look at, in plain tuples."""

    places: list[Point]  # of all bodies, the agents first
    velocities: list[Point]
    landmarks: list[Point]


@dataclass(frozen=True)
class Hunt:
    """The rules of predator-prey."""

    n_agents: int
    policy: Literal["random", "flee", "still"]
    near: float

    def prey_actions(self, view: View, draws: Sequence[float]) -> list[int]:
        predators, prey = view.places[: self.n_agents], view.places[self.n_agents :]
        if self.policy == "random":
            return [int(draw * 5) for draw in draws]
        return [flee(place, predators) if self.policy == "flee" else 0 for place in prey]

    def success(self, view: View) -> bool:
        predators, prey = view.places[: self.n_agents], view.places[self.n_agents :]
        return any(all(dist(predator, place) <= self.near for predator in predators) for place in prey)

    def observation(self, view: View, i: int) -> list[float]:
        others = [place for e, place in enumerate(view.places) if e != i]  # predators, then prey
        seen = [offset(place, view.places[i]) for place in others]
        return flat(view.places[i], view.velocities[i], *seen, *view.velocities[self.n_agents :])


@dataclass(frozen=True)
class Spread:
    """The rules of cooperative navigation."""

    near: float

    def prey_actions(self, view: View, draws: Sequence[float]) -> list[int]:
        return []

    def success(self, view: View) -> bool:
        return all(any(dist(place, mark) < self.near for place in view.places) for mark in view.landmarks)

    def observation(self, view: View, i: int) -> list[float]:
        others = [place for j, place in enumerate(view.places) if j != i]
        seen = [offset(thing, view.places[i]) for thing in view.landmarks + others]
        return flat(view.places[i], view.velocities[i], *seen)


class Particles:
    """An mpe2 world in a state that is set from outside. The first `n_agents` bodies act; the rest are prey."""

    def __init__(
        self, n_agents: int, bodies: Sequence[Body], n_landmarks: int, rules: Hunt | Spread, limit: int = 25
    ) -> None:
        self.n_agents, self.rules, self.limit, self.clock = n_agents, rules, limit, 0
        self.world = World()
        for body in bodies:
            agent = Agent()
            agent.size, agent.accel, agent.max_speed = body.radius, body.acceleration, body.max_speed
            agent.collide = agent.silent = True
            self.world.agents.append(agent)
        for _ in range(n_landmarks):
            landmark = Landmark()
            landmark.collide = landmark.movable = False
            self.world.landmarks.append(landmark)

    def inject(self, pos: np.ndarray, vel: np.ndarray, landmark: np.ndarray, clock: int = 0) -> None:
        """Begin in this state: (E,2) (E,2) (L,2), and the steps so far."""
        for agent, place, velocity in zip(self.world.agents, pos, vel, strict=True):
            agent.state.p_pos, agent.state.p_vel = np.array(place), np.array(velocity)  # copies: mpe2 writes on them
        for mark, place in zip(self.world.landmarks, landmark, strict=True):
            mark.state.p_pos, mark.state.p_vel = np.array(place), np.zeros(2)
        self.clock = clock

    def step(self, actions: Sequence[int], draws: Sequence[float] = ()) -> tuple[list[list[float]], float, bool, bool]:
        """All bodies act at once, in mpe2's own way: observation, reward, terminated, truncated."""
        self.clock += 1
        env = SimpleNamespace(world=self.world, continuous_actions=False)
        for agent, action in zip(
            self.world.agents, [*actions, *self.rules.prey_actions(self.view(), draws)], strict=True
        ):
            SimpleEnv._set_action(env, [int(action)], agent, None)
        self.world.step()
        terminated = self.rules.success(self.view())
        truncated = self.clock >= self.limit and not terminated
        return self.observation(), float(terminated), terminated, truncated

    def view(self) -> View:
        agents, landmarks = self.world.agents, self.world.landmarks
        return View(
            [point(agent.state.p_pos) for agent in agents],
            [point(agent.state.p_vel) for agent in agents],
            [point(mark.state.p_pos) for mark in landmarks],
        )

    def observation(self) -> list[list[float]]:
        view = self.view()
        return [self.rules.observation(view, i) for i in range(self.n_agents)]

    def state(self) -> dict[str, np.ndarray]:
        """Return everything that changes, with the names of the kernel's state."""
        view = self.view()
        return {
            "pos": np.array(view.places),
            "vel": np.array(view.velocities),
            "landmark": np.array(view.landmarks).reshape(-1, 2),
        }


def point(vector: np.ndarray) -> Point:
    return float(vector[0]), float(vector[1])


def flat(*points: Point) -> list[float]:
    return [x for pair in points for x in pair]


def offset(thing: Point, origin: Point) -> Point:
    return thing[0] - origin[0], thing[1] - origin[1]


def flee(place: Point, predators: Sequence[Point]) -> int:
    """Return the action away from the nearest predator, along the axis of the larger offset."""
    dx, dy = offset(place, min(predators, key=lambda predator: dist(place, predator)))
    if abs(dx) >= abs(dy):
        return 2 if dx >= 0 else 1  # +x, -x
    return 4 if dy >= 0 else 3  # +y, -y
