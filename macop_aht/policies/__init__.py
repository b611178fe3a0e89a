"""Policies: whoever plays an agent inside an environment, and the strings that name them.

`resolve` makes policies of what a user writes for a teammate; see `specs`. Every policy keeps one contract; see `protocol`.
Importing this package loads nothing else: numba and onnxruntime are loaded when a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from macop_aht.policies.onnx import OnnxPolicy
    from macop_aht.policies.perturbations import Delayed, Idle, Noisy, Sticky, Switching
    from macop_aht.policies.prefixes import register_prefix
    from macop_aht.policies.protocol import Policy
    from macop_aht.policies.scripted import Random, Scripted
    from macop_aht.policies.specs import PERTURBATIONS, resolve

_WHERE = {
    "OnnxPolicy": "onnx",
    "Delayed": "perturbations",
    "Idle": "perturbations",
    "Noisy": "perturbations",
    "Sticky": "perturbations",
    "Switching": "perturbations",
    "register_prefix": "prefixes",
    "Policy": "protocol",
    "Random": "scripted",
    "Scripted": "scripted",
    "PERTURBATIONS": "specs",
    "resolve": "specs",
}
__all__ = [
    "PERTURBATIONS", "Delayed", "Idle", "Noisy", "OnnxPolicy", "Policy", "Random", "Scripted", "Sticky", "Switching",
    "register_prefix", "resolve",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
