"""How good is zero-shot's recogniser, against a posterior that is computed from the groups' own policies?

    python benchmarks/posterior.py BUNDLE RUN [--temperatures 0.02 0.1 0.5] [--sessions 8] [--episodes 3] [--out FILE.md]

This needs foraging with two agents. There, our observation tells the teammate's observation, with the places exchanged, and
the teammate's move tells its action. The likelihood of an action is a softmax over the Q values of each group's network. The
posterior leaks as zero-shot's belief does. The head is the one with the highest expected return under it.

Both play the same episodes, with the groups of the run (seen), and with the zoo's test groups and the scripts (unseen). The
bundle should have no generalist head (`macop export RUN --generalist.rounds 0`). With one, both play little else on LBF4, and get
the same.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

from macop_aht.deploy.runtime import EgoAgent
from macop_aht.episodes.matches import sessions
from macop_aht.evaluation.bundles import AgentSeats
from macop_aht.export.bundle import group_policies
from macop_aht.learner.networks import Stack, encode
from macop_aht.policies import resolve
from macop_aht.policies.protocol import Policy
from macop_aht.runs.folder import RunFolder
from macop_aht.scenarios import build
from macop_aht.scenarios.lbf_scripts import MOVES
from macop_aht.scenarios.spec import World


class Posterior:
    """Plays the head with the highest expected return under the posterior from the teammate's moves."""

    def __init__(self, agent: EgoAgent, groups: Stack, temperature: float, teams: int) -> None:
        described = agent.manifest.zero_shot
        if described is None:
            raise ValueError("the bundle has no zero-shot selector; export the run again")
        self._agent, self._groups, self._temperature, self._leak = agent, groups, temperature, described.leak
        self._returns = torch.tensor(described.returns).T[: groups.population]  # (G,K)
        names = [name.partition("_") for name in agent.manifest.observations]
        roles = {"self": "other0", "other0": "self"}
        exchanged = [(roles.get(role, role), line, entry) for role, line, entry in names]
        self._view = [names.index(name) for name in exchanged]
        self._place = [names.index(("self", "_", entry)) for entry in ("row", "col")]
        self._belief = torch.zeros(teams, groups.population)  # logarithms
        self._memory = torch.zeros(groups.population, teams, groups.shape.hidden)
        self._q = torch.zeros(groups.population, teams, groups.shape.actions)
        self._before = np.zeros((teams, len(names)), dtype=np.float32)
        self._fresh = np.ones(teams, dtype=np.bool_)

    def episode_begin(self, teams: np.ndarray | None = None) -> None:
        chosen = slice(None) if teams is None else teams
        self._fresh[chosen] = True
        self._memory[:, torch.arange(len(self._fresh))[chosen]] = 0.0
        self._agent.episode_begin(teams)

    def episode_end(self, returns: np.ndarray, teams: np.ndarray) -> None: ...

    @torch.no_grad()
    def act(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        view = obs[:, 0, self._view]
        moved = (view - self._before)[:, self._place].round()
        done = (moved[:, None] == MOVES[None]).all(axis=2).argmax(axis=1)  # (S,) what it did, by where it went
        chance = (self._q / self._temperature).softmax(dim=-1)  # (G,S,A)
        likelihood = chance[:, torch.arange(len(done)), torch.from_numpy(done)].clamp(min=1e-6).log().T
        known = (1 - self._leak) * self._belief.softmax(dim=-1) + self._leak / self._groups.population
        fresh = torch.from_numpy(self._fresh).unsqueeze(-1)
        self._belief = known.log() + torch.where(fresh, 0.0, likelihood)
        last = torch.from_numpy(np.where(self._fresh, -1, done))
        inputs = encode(self._groups.shape, torch.from_numpy(view.copy()), last, torch.ones_like(last))
        everyone = inputs.expand(self._groups.population, -1, -1)
        self._q, self._memory = self._groups.step(everyone, self._memory)
        self._before, self._fresh[:] = view, False
        self._agent.head = (self._belief.softmax(dim=-1) @ self._returns).argmax(dim=-1).numpy()
        return self._agent.act(obs, mask)


def mean_returns(world: World, player: Any, mates: list[Policy], each: int, episodes: int) -> np.ndarray:
    """Return mean returns by teammate and episode, over so many sessions with each: (mates,episodes)."""
    who = np.repeat(np.arange(len(mates)), each)
    seeds = [(crc32(mate.name.encode()) << 20) + k for mate in mates for k in range(each)]
    return (
        sessions(world, AgentSeats(player), mates, who, episodes, seeds)
        .reshape(len(mates), each, episodes)
        .mean(axis=1)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("run", type=Path, help="that the bundle is from")
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.02, 0.1, 0.5])
    parser.add_argument("--sessions", type=int, default=8, help="with each teammate")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "posterior.md")
    arguments = parser.parse_args()
    run = RunFolder(arguments.run)
    scenario, world = run.scenario, build(run.scenario)
    if not scenario.startswith("LBF") or world.n_agents != 2:
        parser.error(f"the teammate's view is known here for foraging with two agents only; this run is of {scenario}")
    groups = Stack.gather([(group, 0) for group in run.groups().values()])
    unseen = [mate for spec in ("zoo:test", "scripted") for mate in resolve(spec, world, scenario)]
    tiers: dict[str, list[Policy]] = {"seen": list(group_policies(arguments.run)), "unseen": unseen}
    lines = [
        "# Recogniser and posterior",
        "",
        f"`python benchmarks/posterior.py BUNDLE RUN --sessions {arguments.sessions} --episodes {arguments.episodes}`: "
        f"{scenario}, mean returns with {len(tiers['seen'])} seen and {len(unseen)} unseen teammates, in the first episode and "
        "in those that follow.",
        "",
        "| selector | seen, first | seen, later | unseen, first | unseen, later |",
        "|---|---|---|---|---|",
    ]
    for temperature in (None, *arguments.temperatures):
        cells = []
        for mates in tiers.values():
            teams = len(mates) * arguments.sessions
            agent = EgoAgent.load(arguments.bundle, "zero-shot" if temperature is None else None, teams)
            player: Any = agent if temperature is None else Posterior(agent, groups, temperature, teams)
            found = mean_returns(world, player, mates, arguments.sessions, arguments.episodes).mean(axis=0)
            cells += [f"{found[0]:.3f}", f"{found[1:].mean():.3f}"]
        name = "zero-shot" if temperature is None else f"posterior, temperature {temperature}"
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
