"""The trained agent at run time: a bundle and its head selectors, with numpy and onnxruntime alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from macop_aht.policies.prefixes import register_prefix

if TYPE_CHECKING:
    from macop_aht.scenarios.spec import World


def _policies(spec: str, scenario: str, world: World) -> list[Any]:
    """What a teammate spec stands for behind `agent:`; see `policy.load`."""
    from macop_aht.deploy.policy import load

    return list(load(spec, scenario, world))


register_prefix("agent", _policies)
