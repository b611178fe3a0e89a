"""The methods: how teammates are generated, and how an ego learns to play with them. One algorithm box per file.

`train` runs one; `register_method` adds a `Method` of your own to the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from macop_aht.methods.registry import Method, MethodRun, register_method
    from macop_aht.methods.training import train

__all__ = ["Method", "MethodRun", "register_method", "train"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'macop_aht.methods' has no attribute {name!r}")
    from macop_aht.methods import training

    return getattr(training, name)
