"""The particle worlds: predator-prey and cooperative navigation on a plane without walls.

Physics as in `mpe2`: a step is `pos += vel*dt`, then `vel = vel*(1-damping) + force*dt`, clipped to the body's maximum
speed. Bodies have unit mass. Bodies that touch push each other apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from macop_aht.compiling import njit
from macop_aht.scenarios import particle_scripts
from macop_aht.scenarios.particle_scripts import DAMPING, DT, MOVES, OTHERS, SELF, VELOCITY
from macop_aht.scenarios.scene import Area, Body, Ring, Scene, seat_role
from macop_aht.scenarios.spec import (
    Kernels,
    Point,
    Script,
    World,
    make_whole,
    points,
    require,
    require_not_negative,
    require_positive,
    require_teammate,
)
from macop_aht.util import hint

CONTACT_FORCE: Final = 100.0
CONTACT_MARGIN: Final = 1e-3
ACTIONS = ("nothing", "west", "east", "south", "north")  # -x, +x, -y, +y

PreyPolicy = Literal["random", "flee", "still"]
PREY_POLICIES: tuple[str, ...] = get_args(PreyPolicy)
RANDOM, FLEE, STILL = range(3)


class Params(NamedTuple):
    """The figures that the kernels read, of E bodies and L landmarks. Bodies are the agents and then, if any, the prey."""

    radius: np.ndarray  # (E,)
    acceleration: np.ndarray  # (E,)
    max_speed: np.ndarray  # (E,) infinite without a maximum
    spawn: np.ndarray  # (E,2)
    landmarks: np.ndarray  # (L,2)
    jitter: np.ndarray  # (E+L,) of every spawn coordinate, either way
    prey_policy: int
    near: float  # distance within which a prey is caught or a landmark covered


class State(NamedTuple):
    """The arrays that the kernels change."""

    pos: np.ndarray  # (B,E,2)
    vel: np.ndarray  # (B,E,2)
    landmark: np.ndarray  # (B,L,2)


@njit(cache=True)
def reset(params, state, rows, draws):
    """Place bodies and landmarks at rest, with jitter on each coordinate: `rows` (B,) bool, `draws` (B, 2(E+L))."""
    n_bodies = state.pos.shape[1]
    for b in range(rows.shape[0]):
        if not rows[b]:
            continue
        for e in range(n_bodies):
            for x in range(2):
                state.pos[b, e, x] = params.spawn[e, x] + (2 * draws[b, 2 * e + x] - 1) * params.jitter[e]
                state.vel[b, e, x] = 0.0
        for k in range(state.landmark.shape[1]):
            e = n_bodies + k
            for x in range(2):
                state.landmark[b, k, x] = params.landmarks[k, x] + (2 * draws[b, 2 * e + x] - 1) * params.jitter[e]


@njit(inline="always")
def _distance(pos, other):
    return np.sqrt((pos[0] - other[0]) ** 2 + (pos[1] - other[1]) ** 2)


@njit(inline="always")
def _add_contacts(params, pos, force):
    """Add the forces that push touching bodies apart: `pos`, `force` (E,2)."""
    for e in range(pos.shape[0]):
        for other in range(e + 1, pos.shape[0]):
            dx, dy = pos[e, 0] - pos[other, 0], pos[e, 1] - pos[other, 1]
            reach = params.radius[e] + params.radius[other]
            square = dx * dx + dy * dy
            if square > (reach + 40 * CONTACT_MARGIN) ** 2 or square == 0.0:
                continue  # the contact force is below 1e-18 here, or has no direction
            distance = np.sqrt(square)
            overlap = (reach - distance) / CONTACT_MARGIN
            depth = CONTACT_MARGIN * (max(overlap, 0.0) + np.log1p(np.exp(-abs(overlap))))
            push = CONTACT_FORCE * depth / distance
            force[e, 0] += dx * push
            force[e, 1] += dy * push
            force[other, 0] -= dx * push
            force[other, 1] -= dy * push


@njit(inline="always")
def _integrate(params, pos, vel, force):
    for e in range(pos.shape[0]):
        pos[e, 0] += vel[e, 0] * DT
        pos[e, 1] += vel[e, 1] * DT
        vel[e, 0] = vel[e, 0] * (1 - DAMPING) + force[e, 0] * DT
        vel[e, 1] = vel[e, 1] * (1 - DAMPING) + force[e, 1] * DT
        square = vel[e, 0] ** 2 + vel[e, 1] ** 2
        if square > params.max_speed[e] ** 2:
            scale = params.max_speed[e] / np.sqrt(square)
            vel[e, 0] *= scale
            vel[e, 1] *= scale


@njit(inline="always")
def _flee(pos, prey, n_predators):
    """Return the action away from the nearest predator, along the axis of the larger offset."""
    nearest, least = 0, np.inf
    for i in range(n_predators):
        square = (pos[prey, 0] - pos[i, 0]) ** 2 + (pos[prey, 1] - pos[i, 1]) ** 2
        if square < least:
            nearest, least = i, square
    dx, dy = pos[prey, 0] - pos[nearest, 0], pos[prey, 1] - pos[nearest, 1]
    if abs(dx) >= abs(dy):
        return 2 if dx >= 0 else 1
    return 4 if dy >= 0 else 3


@njit(cache=True)
def step_prey(params, state, action, draws, reward, terminated):
    """Move predators and prey; a prey is caught when all predators are near it in the same step: `action` (B,N)."""
    n_predators, n_bodies = action.shape[1], state.pos.shape[1]
    force = np.empty((n_bodies, 2), dtype=np.float64)
    for b in range(action.shape[0]):
        pos, vel = state.pos[b], state.vel[b]
        for e in range(n_bodies):
            if e < n_predators:
                a = action[b, e]
            elif params.prey_policy == RANDOM:
                a = int(draws[b, e - n_predators] * 5)
            else:
                a = _flee(pos, e, n_predators) if params.prey_policy == FLEE else 0
            force[e, 0] = MOVES[a, 0] * params.acceleration[e]
            force[e, 1] = MOVES[a, 1] * params.acceleration[e]
        _add_contacts(params, pos, force)
        _integrate(params, pos, vel, force)
        terminated[b] = False
        for e in range(n_predators, n_bodies):
            caught = True
            for i in range(n_predators):
                if not _distance(pos[i], pos[e]) <= params.near:
                    caught = False
            terminated[b] |= caught
        reward[b] = 1.0 if terminated[b] else 0.0


@njit(cache=True)
def step_landmarks(params, state, action, draws, reward, terminated):
    """Move the agents; the episode ends when every landmark has an agent near it: `action` (B,N)."""
    n_agents, n_landmarks = action.shape[1], state.landmark.shape[1]
    force = np.empty((n_agents, 2), dtype=np.float64)
    for b in range(action.shape[0]):
        pos, vel = state.pos[b], state.vel[b]
        for i in range(n_agents):
            force[i, 0] = MOVES[action[b, i], 0] * params.acceleration[i]
            force[i, 1] = MOVES[action[b, i], 1] * params.acceleration[i]
        _add_contacts(params, pos, force)
        _integrate(params, pos, vel, force)
        terminated[b] = True
        for k in range(n_landmarks):
            covered = False
            for i in range(n_agents):
                if _distance(pos[i], state.landmark[b, k]) < params.near:
                    covered = True
            terminated[b] &= covered
        reward[b] = 1.0 if terminated[b] else 0.0


@njit(cache=True)
def observe_prey(params, state, rows, obs):
    """Write own position and velocity, other predators and prey relative to it, the prey's velocities: `obs` (B,N,D)."""
    n_predators, n_bodies = obs.shape[1], state.pos.shape[1]
    for b in range(obs.shape[0]):
        if not rows[b]:
            continue
        for i in range(n_predators):
            at = OTHERS
            for x in range(2):
                obs[b, i, SELF + x] = state.pos[b, i, x]
                obs[b, i, VELOCITY + x] = state.vel[b, i, x]
            for e in range(n_bodies):
                if e != i:
                    obs[b, i, at] = state.pos[b, e, 0] - state.pos[b, i, 0]
                    obs[b, i, at + 1] = state.pos[b, e, 1] - state.pos[b, i, 1]
                    at += 2
            for e in range(n_predators, n_bodies):
                obs[b, i, at] = state.vel[b, e, 0]
                obs[b, i, at + 1] = state.vel[b, e, 1]
                at += 2


@njit(cache=True)
def observe_landmarks(params, state, rows, obs):
    """Write own position and velocity, landmarks and then the other agents relative to it: `obs` (B,N,D)."""
    n_agents = obs.shape[1]
    for b in range(obs.shape[0]):
        if not rows[b]:
            continue
        for i in range(n_agents):
            at = OTHERS
            for x in range(2):
                obs[b, i, SELF + x] = state.pos[b, i, x]
                obs[b, i, VELOCITY + x] = state.vel[b, i, x]
            for k in range(state.landmark.shape[1]):
                obs[b, i, at] = state.landmark[b, k, 0] - state.pos[b, i, 0]
                obs[b, i, at + 1] = state.landmark[b, k, 1] - state.pos[b, i, 1]
                at += 2
            for j in range(n_agents):
                if j != i:
                    obs[b, i, at] = state.pos[b, j, 0] - state.pos[b, i, 0]
                    obs[b, i, at + 1] = state.pos[b, j, 1] - state.pos[b, i, 1]
                    at += 2


@njit(cache=True)
def mask(params, state, rows, out):
    """Write the mask: all actions are always available: `out` (B,N,5)."""
    out[:] = 1


@njit(cache=True)
def advance_prey(params, state, action, draws, reward, terminated, rows, obs, out):
    """Step, observe and mask in one call."""
    step_prey(params, state, action, draws, reward, terminated)
    observe_prey(params, state, rows, obs)
    mask(params, state, rows, out)


@njit(cache=True)
def advance_landmarks(params, state, action, draws, reward, terminated, rows, obs, out):
    """Step, observe and mask in one call."""
    step_landmarks(params, state, action, draws, reward, terminated)
    observe_landmarks(params, state, rows, obs)
    mask(params, state, rows, out)


def _allocate(bodies: int, landmarks: int, size: int) -> State:
    return State(
        pos=np.zeros((size, bodies, 2)), vel=np.zeros((size, bodies, 2)), landmark=np.zeros((size, landmarks, 2))
    )


def _names(*things: str) -> tuple[str, ...]:
    return tuple(f"{thing}_{axis}" for thing in things for axis in ("x", "y"))


def _world(
    family: PredatorPrey | CooperativeNavigation,
    params: Params,
    kernels: Kernels,
    observations: tuple[str, ...],
    scripts: Mapping[str, Script],
    n_agents: int,
    step_draws: int = 0,
) -> World:
    bodies, landmarks = len(params.radius), len(params.landmarks)
    high = np.full(len(observations), np.inf, dtype=np.float32)
    return World(
        kernels=kernels,
        params=params,
        allocate=partial(_allocate, bodies, landmarks),
        n_agents=n_agents,
        controllable=family.controllable,
        limit=family.limit,
        actions=ACTIONS,
        observations=observations,
        bounds=(-high, high),
        state_dim=n_agents * len(observations),
        reset_draws=2 * (bodies + landmarks),
        step_draws=step_draws,
        scripts=scripts,
        scene=family._scene,
        outcome=family._outcome,
    )


@dataclass(frozen=True)
class PredatorPrey:
    """Predators hunt on an open plane; a prey is caught when all predators are near it in the same step.

    ### Description
    The agents are the predators. There are several prey, and one is enough. So all predators must hunt
    the same one. All bodies collide.

    ### Action space
    | action | name | effect |
    |---|---|---|
    | 0 | nothing | no force |
    | 1 | west | force along -x |
    | 2 | east | force along +x |
    | 3 | south | force along -y |
    | 4 | north | force along +y |

    A force is of the size of `acceleration`. All actions are always available.

    ### Observation space
    The entries of one predator, each an (x, y) pair:

    | pairs | meaning |
    |---|---|
    | 1 | its own position |
    | 1 | its own velocity |
    | N-1 | positions of the other predators, relative to its own |
    | one per prey | positions of the prey, relative to its own |
    | one per prey | velocities of the prey |

    ### Prey
    | `prey_policy` | behaviour |
    |---|---|
    | `"random"` | a uniformly random action in every step |
    | `"flee"` | accelerates away from the nearest predator, along the axis of the larger offset |
    | `"still"` | does nothing |

    ### Rewards
    The team's reward is 1 when a prey is caught, else 0. A prey is caught when every predator is within
    2 * (predator radius + prey radius) of it.

    ### Starting state
    Predators spawn uniformly in [-`spawn`, `spawn`] on both axes. Prey spawn at `prey`. All are at rest.

    ### Episode end
    The episode terminates when a prey is caught. It is truncated after `limit` steps.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `prey` | `((1.0, 0.0), (-0.5, 0.87), (-0.5, -0.87))` | spawn points of the prey |
    | `prey_policy` | `'random'` | see above |
    | `prey_acceleration` | `2.4` | of the prey |
    | `prey_max_speed` | `0.4` | of the prey |
    | `prey_radius` | `0.05` | of the prey |
    | `n_agents` | `2` | number of predators |
    | `controllable` | `1` | number of agents of the ego |
    | `acceleration` | `3.0` | of the predators |
    | `max_speed` | `1.0` | of the predators |
    | `radius` | `0.075` | of the predators |
    | `spawn` | `0.1` | half of the width of the square that predators spawn in |
    | `limit` | `25` | steps |

    ### Version history
    - v0: first version
    """

    prey: tuple[Point, ...] = ((1.0, 0.0), (-0.5, 0.87), (-0.5, -0.87))  # spawn points
    prey_policy: PreyPolicy = "random"
    prey_acceleration: float = 2.4
    prey_max_speed: float = 0.4
    prey_radius: float = 0.05
    n_agents: int = 2
    controllable: int = 1
    acceleration: float = 3.0
    max_speed: float = 1.0
    radius: float = 0.075
    spawn: float = 0.1  # predators spawn uniformly in [-spawn, spawn] on both axes
    limit: int = 25  # steps

    def __post_init__(self) -> None:
        make_whole(self, n_agents=2, controllable=1, limit=1)
        object.__setattr__(self, "prey", points("prey", self.prey, least=1))
        require(
            self.prey_policy in PREY_POLICIES,
            f"prey_policy {self.prey_policy!r} is unknown; {hint(str(self.prey_policy), PREY_POLICIES)}",
        )
        require_teammate(self.controllable, self.n_agents)
        require_positive(self, "prey_acceleration", "prey_max_speed", "prey_radius")
        require_positive(self, "acceleration", "max_speed", "radius", "spawn")

    def build(self) -> World:
        """Return the world with these parameters."""
        n, p = self.n_agents, len(self.prey)
        params = Params(
            radius=np.array([self.radius] * n + [self.prey_radius] * p),
            acceleration=np.array([self.acceleration] * n + [self.prey_acceleration] * p),
            max_speed=np.array([self.max_speed] * n + [self.prey_max_speed] * p),
            spawn=np.array([(0.0, 0.0)] * n + list(self.prey)),
            landmarks=np.zeros((0, 2)),
            jitter=np.array([self.spawn] * n + [0.0] * p),
            prey_policy=PREY_POLICIES.index(self.prey_policy),
            near=2 * (self.radius + self.prey_radius),
        )
        others, prey = [f"other{i}" for i in range(n - 1)], [f"prey{k}" for k in range(p)]
        names = _names("self", "self_velocity", *others, *prey, *(f"{name}_velocity" for name in prey))
        scripts = particle_scripts.prey_scripts(n, p, self.acceleration, self.max_speed)
        kernels = Kernels(reset, step_prey, observe_prey, mask, advance_prey)
        draws = p if self.prey_policy == "random" else 0
        return _world(self, params, kernels, names, scripts, n, draws)

    def _outcome(self, state: State, b: int) -> str:
        """Return which prey was caught; "" where none was."""
        agents, prey = state.pos[b, : self.n_agents], state.pos[b, self.n_agents :]
        farthest = np.linalg.norm(agents[:, None] - prey[None], axis=-1).max(axis=0)
        caught = farthest <= 2 * (self.radius + self.prey_radius)
        return f"prey {np.where(caught, farthest, np.inf).argmin()}" if caught.any() else ""

    def _scene(self, state: State, b: int) -> Scene:
        places, near = state.pos[b].tolist(), 2 * (self.radius + self.prey_radius)
        prey = places[self.n_agents :]
        bodies = [Body(f"prey{k}", x, y, self.prey_radius, "prey", glyph="o") for k, (x, y) in enumerate(prey)]
        rings = [Ring(x, y, near, "prey") for x, y in prey]
        agents = _agents(places[: self.n_agents], self.controllable, self.radius)
        return Scene(_area(state, b), (*bodies, *agents), tuple(rings))


@dataclass(frozen=True)
class CooperativeNavigation:
    """Agents on an open plane spread over the landmarks, one agent at each.

    ### Description
    All landmarks must be covered at the same time. So the agents must agree on who goes where. Agents
    collide with each other, but not with landmarks.

    ### Action space
    | action | name | effect |
    |---|---|---|
    | 0 | nothing | no force |
    | 1 | west | force along -x |
    | 2 | east | force along +x |
    | 3 | south | force along -y |
    | 4 | north | force along +y |

    A force is of the size of `acceleration`. All actions are always available.

    ### Observation space
    The entries of one agent, each an (x, y) pair:

    | pairs | meaning |
    |---|---|
    | 1 | its own position |
    | 1 | its own velocity |
    | one per landmark | positions of the landmarks, relative to its own |
    | N-1 | positions of the other agents, relative to its own |

    ### Rewards
    The team's reward is 1 when all landmarks are covered, else 0. A landmark is covered when an agent is
    nearer to it than `near` * (agent radius + landmark radius).

    ### Starting state
    Agents spawn at `agents`, landmarks at `landmarks`, each coordinate moved by up to `jitter`. All are
    at rest.

    ### Episode end
    The episode terminates when all landmarks are covered. It is truncated after `limit` steps.

    ### Arguments
    | argument | default | meaning |
    |---|---|---|
    | `agents` | `((-0.5, 0.0), (0.5, 0.0))` | spawn points |
    | `landmarks` | `((0.0, 1.0), (0.0, -1.0))` | at most one per agent |
    | `near` | `1.4` | times the sum of the radii |
    | `controllable` | `1` | number of agents of the ego |
    | `acceleration` | `5.0` | of the agents |
    | `radius` | `0.2` | of agents and landmarks |
    | `jitter` | `0.001` | of every spawn coordinate, either way |
    | `limit` | `25` | steps |

    ### Version history
    - v0: first version
    """

    agents: tuple[Point, ...] = ((-0.5, 0.0), (0.5, 0.0))  # spawn points
    landmarks: tuple[Point, ...] = ((0.0, 1.0), (0.0, -1.0))
    near: float = 1.4  # times the sum of the radii
    controllable: int = 1
    acceleration: float = 5.0
    radius: float = 0.2  # of agents and landmarks
    jitter: float = 1e-3  # of every spawn coordinate, either way
    limit: int = 25  # steps

    def __post_init__(self) -> None:
        make_whole(self, controllable=1, limit=1)
        object.__setattr__(self, "agents", points("agents", self.agents, least=2))
        object.__setattr__(self, "landmarks", points("landmarks", self.landmarks, least=1))
        require(
            len(self.landmarks) <= len(self.agents),
            f"{len(self.landmarks)} landmarks are too many for {len(self.agents)} agents; give at most one per agent",
        )
        require_teammate(self.controllable, len(self.agents))
        require_positive(self, "near", "acceleration", "radius")
        require_not_negative(self, "jitter")

    def build(self) -> World:
        """Return the world with these parameters."""
        n, places = len(self.agents), len(self.landmarks)
        params = Params(
            radius=np.full(n, self.radius),
            acceleration=np.full(n, self.acceleration),
            max_speed=np.full(n, np.inf),
            spawn=np.array(self.agents),
            landmarks=np.array(self.landmarks),
            jitter=np.full(n + places, self.jitter),
            prey_policy=STILL,
            near=self.near * 2 * self.radius,
        )
        others, landmarks = [f"other{i}" for i in range(n - 1)], [f"landmark{k}" for k in range(places)]
        names = _names("self", "self_velocity", *landmarks, *others)
        scripts = particle_scripts.landmark_scripts(self.agents, self.landmarks, self.acceleration)
        kernels = Kernels(reset, step_landmarks, observe_landmarks, mask, advance_landmarks)
        return _world(self, params, kernels, names, scripts, n)

    def _outcome(self, state: State, b: int) -> str:
        """Return, agent by agent, the nearest landmark; "" unless all landmarks are covered."""
        distance = np.linalg.norm(state.pos[b][:, None] - state.landmark[b][None], axis=-1)
        covered = (distance < self.near * 2 * self.radius).any(axis=0)
        return "landmarks " + " ".join(str(nearest) for nearest in distance.argmin(axis=1)) if covered.all() else ""

    def _scene(self, state: State, b: int) -> Scene:
        places = state.landmark[b].tolist()
        landmarks = [Body(f"landmark{k}", x, y, self.radius, "landmark", glyph="x") for k, (x, y) in enumerate(places)]
        rings = [Ring(x, y, self.near * 2 * self.radius, "landmark") for x, y in places]
        agents = _agents(state.pos[b].tolist(), self.controllable, self.radius)
        return Scene(_area(state, b), (*landmarks, *agents), tuple(rings))


def _area(state: State, b: int) -> Area:
    """Return a square with all bodies and landmarks inside; the plane has no walls."""
    half = max(1.6, float(np.abs(np.concatenate([state.pos[b], state.landmark[b]])).max()) + 0.3)
    return Area(-half, -half, half, half)


def _agents(places: list[list[float]], controllable: int, radius: float) -> list[Body]:
    return [
        Body(f"agent{i}", x, y, radius, seat_role(i, controllable), label=str(i), glyph=str(i), agent=i)
        for i, (x, y) in enumerate(places)
    ]
