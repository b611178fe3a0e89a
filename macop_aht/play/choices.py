"""Who can sit where: the agents, selectors and teammates that a page offers for a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, lru_cache

from macop_aht import paths, zoo
from macop_aht.deploy.files import bundle_folder, bundle_manifest
from macop_aht.deploy.manifest import ZERO_SHOT, Manifest
from macop_aht.deploy.runtime import EgoAgent
from macop_aht.policies import resolve
from macop_aht.policies.protocol import Policy
from macop_aht.scenarios import build
from macop_aht.util import hint

FIRST = ("macop-plus", "macop")  # the methods whose bundles are offered first
LATEST = 32  # policies and agents that are kept in memory


@dataclass(frozen=True)
class Choice:
    """Who plays: the ego's agent and its selector, and who sits in the seats behind it."""

    agent: str  # a bundle, by folder or shipped name, or a teammate spec
    selector: str  # of the bundle; "" where there is none
    teammate: str  # a teammate spec
    person: bool = True  # a person has the first of the teammate's seats


@dataclass(frozen=True)
class Offer:
    """What can be chosen in a scenario. A page chooses from these lists only: it names no files and no modules."""

    scenario: str
    selectors: dict[str, tuple[str, ...]]  # by agent; none for an agent that is no bundle
    teammates: tuple[str, ...]

    def default(self) -> Choice:
        """Return what is played unless something else is chosen."""
        agent = next(iter(self.selectors))
        return Choice(agent, self._selector(agent), self.teammates[0])

    def chosen(self, now: Choice, agent: str, selector: str, teammate: str, person: bool) -> Choice:
        """Return a new choice, "" meaning as it is now; raise `ValueError` for what is not offered."""
        agent, teammate = agent or now.agent, teammate or now.teammate
        if agent not in self.selectors:
            raise ValueError(f"unknown agent {agent!r}; {hint(agent, self.selectors)}")
        known = self.selectors[agent]
        selector = selector or (now.selector if now.selector in known else self._selector(agent))
        if selector and selector not in known:
            raise ValueError(f"{agent} has no selector {selector!r}; {hint(selector, known)}")
        if teammate not in self.teammates:
            raise ValueError(f"unknown teammate {teammate!r}; {hint(teammate, self.teammates)}")
        return Choice(agent, selector, teammate, person)

    def _selector(self, agent: str) -> str:
        return next(iter(self.selectors[agent]), "")


def offer(scenario: str, agent: str = "", selector: str = "") -> Offer:
    """Return what can be chosen; `agent` and `selector` come first, where they are given.

    `agent` is a bundle, by folder or shipped name, or a teammate spec. Without a bundle for this scenario, scripts and the
    random policy are offered. Raises `ValueError` or `FileNotFoundError` for an agent that cannot play here.
    """
    shipped, scripts = _shipped(scenario), [f"scripted:{name}" for name in build(scenario).scripts]
    agents = _selectors(agent, scenario) if agent else {}
    agents |= {name: selectors for name, selectors in shipped.items() if name not in agents}
    agents |= {} if agents else dict.fromkeys(scripts, ())
    if selector:
        first, known = next(iter(agents.items()))
        if selector not in known:
            raise ValueError(f"{first} has no selector {selector!r}; {hint(selector, known)}")
        agents[first] = (selector, *(name for name in known if name != selector))
    return Offer(scenario, agents | {"random": ()}, (*_groups(scenario), *scripts, "random"))


@cache
def _shipped(scenario: str) -> dict[str, tuple[str, ...]]:
    """The bundles that come with the package, those of `FIRST` before the others."""
    try:
        methods = sorted(path.name for path in paths.find("agents").iterdir())
    except FileNotFoundError:
        return {}
    ordered = sorted(methods, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    names = [f"{method}/{scenario}" for method in ordered]
    found = {name: bundle_manifest(name) for name in names if bundle_folder(name).is_dir()}
    return {name: _ordered(manifest) for name, manifest in found.items() if manifest}


def _selectors(agent: str, scenario: str) -> dict[str, tuple[str, ...]]:
    manifest = bundle_manifest(agent)
    if manifest is None:
        _ = policies(scenario, agent)  # a misspelt one fails here
        return {agent: ()}
    if manifest.scenario != scenario:
        raise ValueError(f"the bundle {agent} plays {manifest.scenario}; give one of {scenario}")
    return {agent: _ordered(manifest)}


def _ordered(manifest: Manifest) -> tuple[str, ...]:
    return tuple(sorted(manifest.selectors, key=lambda name: name != ZERO_SHOT))


@cache
def _groups(scenario: str) -> tuple[str, ...]:
    """The zoo's groups, those held out for tests first."""
    try:
        cards = zoo.cards(scenario)
    except FileNotFoundError:
        return ()
    return tuple(f"zoo:{name}" for name in sorted(cards, key=lambda name: cards[name].split != "test"))


@lru_cache(maxsize=LATEST)
def policies(scenario: str, spec: str) -> Sequence[Policy]:
    """Return the policies that a spec stands for. They hold no state, so all games share them."""
    return resolve(spec, build(scenario), scenario)


@lru_cache(maxsize=LATEST)
def _prototype(agent: str, selector: str) -> EgoAgent:
    return EgoAgent.load(agent, selector)


def load_ego(choice: Choice, scenario: str) -> EgoAgent | Policy:
    """Return the ego of a choice: an agent of its own for a bundle, else a policy."""
    if not choice.selector:
        return policies(scenario, choice.agent)[0]
    return copy(_prototype(choice.agent, choice.selector))
