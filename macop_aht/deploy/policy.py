"""An ego bundle as a policy, so that it can sit anywhere: `teammate="agent:macop-plus/LBF4"`.

In a seat that is not the ego's, it plays as one of its own agents: as agent i - k*m, where m is how many it controls and i is
the seat. A row knows nothing of other rows: with zero-shot, every seat recognises its partners for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from macop_aht.deploy.documents import BundleError
from macop_aht.deploy.files import bundle_content, bundle_folder, read_manifest
from macop_aht.deploy.manifest import AGENT, ZERO_SHOT, Manifest
from macop_aht.deploy.runtime import valid_heads
from macop_aht.onnx import Session
from macop_aht.policies.protocol import Array, Decision
from macop_aht.util import hint

if TYPE_CHECKING:
    from macop_aht.scenarios.spec import World

SELECTOR = f"selectors/{ZERO_SHOT}.onnx"


class EgoPolicy:
    """The heads of a bundle as one policy: a fixed head, or in every step the one that zero-shot selects.

    Its memory is the network's, and behind it zero-shot's belief. Both begin anew with every episode.
    """

    draws = 0

    def __init__(self, name: str, manifest: Manifest, graphs: dict[str, bytes], head: int | None = None) -> None:
        """`graphs` are the contents of agent.onnx and, where no head is fixed, of zero-shot's file, by name."""
        self.name, self._manifest, self._graphs, self._head = name, manifest, graphs, head
        belief = manifest.zero_shot.belief.size if head is None and manifest.zero_shot else 0
        self.memory_size = manifest.hidden + belief
        self._network = Session(graphs[AGENT], AGENT)
        self._selector = Session(graphs[SELECTOR], SELECTOR) if head is None else None

    def act(self, obs: Array, mask: Array, agent: Array, last_action: Array, memory: Array, draws: Array) -> Decision:
        """Return the best available action by the head's values, and the next memory: see `policies.protocol`."""
        hidden, own = self._manifest.hidden, agent % self._manifest.controllable
        feed = {
            "obs": obs,
            "last_action": last_action,
            "agent": own,
            "memory": np.ascontiguousarray(memory[:, :hidden]),
        }
        q, next_memory = self._network.run(["q", "next_memory"], feed)
        if self._selector is None:
            values = q[:, self._head]
        else:
            head, belief = self._select(self._selector, obs, last_action, memory[:, hidden:])
            values, next_memory = q[np.arange(len(q)), head], np.concatenate([next_memory, belief], axis=1)
        if np.isnan(values).any():
            raise BundleError(f"the agent {self.name!r} gave NaN among its q values; export the bundle again")
        return np.where(mask == 1, values, -np.inf).argmax(axis=1), next_memory

    def _select(
        self, selector: Session, obs: np.ndarray, last_action: np.ndarray, belief: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The heads (R,) and the next belief (R,S): every row is a team whose agents all see what this one sees."""
        team = self._manifest.controllable
        feed = {
            "obs": obs[:, None].repeat(team, axis=1),
            "last_action": last_action[:, None].repeat(team, axis=1),
            "agent": np.tile(np.arange(team), (len(obs), 1)),
            "belief": np.ascontiguousarray(belief),
        }
        head, next_belief = selector.run(["head", "next_belief"], feed)
        return valid_heads(head, self._manifest.heads, SELECTOR), next_belief


def load(spec: str, scenario: str, world: World) -> list[EgoPolicy]:
    """Return what a teammate spec stands for behind `agent:`: a shipped name or a folder, then `@HEAD` for a fixed head.

    Without a head, it is zero-shot's choice; a bundle of one head needs none.
    """
    place, _, wanted = spec.rpartition("@") if "@" in spec else (spec, "", "")
    manifest = read_manifest(bundle_folder(place))
    sizes = (manifest.agents, manifest.observations, manifest.actions)
    if sizes != (world.n_agents, tuple(world.observations), tuple(world.actions)):
        raise ValueError(
            f"the bundle {place} plays {manifest.scenario}; it cannot play in this scenario, {scenario or 'yours'}"
        )
    head = _head(place, wanted, manifest)
    names = [AGENT] if head is not None else [AGENT, SELECTOR]
    graphs = {name: bundle_content(bundle_folder(place), manifest, name) for name in names}
    return [EgoPolicy(f"agent:{spec}", manifest, graphs, head)]


def _head(place: str, wanted: str, manifest: Manifest) -> int | None:
    """The head that is wanted; None for zero-shot's choice."""
    if wanted:
        heads = [str(head) for head in range(manifest.heads)]
        if wanted not in heads:
            raise ValueError(f"the bundle {place} has no head {wanted!r}; {hint(wanted, heads)}")
        return int(wanted)
    if ZERO_SHOT in manifest.selectors:
        return None
    if manifest.heads == 1:
        return 0
    raise ValueError(
        f"the bundle {place} has no zero-shot selector; fix one of its {manifest.heads} heads, such as {place}@0"
    )
