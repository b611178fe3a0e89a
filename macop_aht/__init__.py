"""Ad-hoc teamwork as Gymnasium environments: the teammates are inside, and nobody tells the agent who they are.

Importing this package registers the environments and nothing else: numba, torch and onnxruntime are loaded when they are needed.

    parallel_env      a scenario's full team as a PettingZoo parallel environment
    register          add a scenario of your own
    embed             put teammates into any team's environment
    External          any team's environment as a scenario, for `register`
    from_smac         an environment with SMAC's interface, for `External`
    register_method   add a method of your own
    zoo               teammate groups by name
    EgoAgent          a trained agent from its bundle, with numpy and onnxruntime alone
    train             train an ego agent, and the teammates that it learns with: train(MethodRun.from_preset("LBF4"), "runs/lbf4")
    evaluate          how good an agent is with teammates that it has not met
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from macop_aht.policies import prefixes
from macop_aht.version import __version__

if TYPE_CHECKING:
    from macop_aht import zoo
    from macop_aht.deploy.runtime import EgoAgent
    from macop_aht.envs.embedding import embed
    from macop_aht.envs.parallel import parallel_env
    from macop_aht.envs.registration import register
    from macop_aht.evaluation.agents import evaluate
    from macop_aht.methods.registry import Method, MethodRun, register_method
    from macop_aht.methods.training import train
    from macop_aht.scenarios.external import External, from_smac

_WHERE = {
    "EgoAgent": "macop_aht.deploy.runtime",
    "Method": "macop_aht.methods.registry",
    "External": "macop_aht.scenarios.external",
    "MethodRun": "macop_aht.methods.registry",
    "embed": "macop_aht.envs.embedding",
    "evaluate": "macop_aht.evaluation.agents",
    "from_smac": "macop_aht.scenarios.external",
    "parallel_env": "macop_aht.envs.parallel",
    "register": "macop_aht.envs.registration",
    "register_method": "macop_aht.methods.registry",
    "train": "macop_aht.methods.training",
}
__all__ = [
    "EgoAgent", "External", "Method", "MethodRun", "__version__", "embed", "evaluate", "from_smac", "parallel_env", "register",
    "register_method", "train", "zoo",
]  # fmt: skip

prefixes.announce("zoo", "macop_aht.zoo")
prefixes.announce("agent", "macop_aht.deploy")
prefixes.announce("person", "macop_aht.evaluation.recordings")

if find_spec("gymnasium"):
    from macop_aht.envs.registration import register_builtin

    register_builtin()


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name == "zoo":
        return import_module("macop_aht.zoo")
    raise AttributeError(f"module 'macop_aht' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
