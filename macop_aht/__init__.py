"""Ad-hoc teamwork as Gymnasium environments: the teammates are inside, and nobody tells the agent who they are.

Importing this package registers the environments and nothing else; numba and torch are loaded when they are needed.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from macop_aht.policies import prefixes
from macop_aht.version import __version__

if TYPE_CHECKING:
    from macop_aht.envs.parallel import parallel_env
    from macop_aht.envs.registration import register

__all__ = ["__version__", "parallel_env", "register"]

prefixes.announce("zoo", "macop_aht.zoo")
prefixes.announce("agent", "macop_aht.deploy")

if find_spec("gymnasium"):
    from macop_aht.envs.registration import register_builtin

    register_builtin()


def __getattr__(name: str) -> Any:
    if name == "parallel_env":
        from macop_aht.envs.parallel import parallel_env

        return parallel_env
    if name == "register":
        from macop_aht.envs.registration import register

        return register
    raise AttributeError(f"module 'macop_aht' has no attribute {name!r}")
