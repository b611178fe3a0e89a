"""The error of environments that the suite cannot use."""

from __future__ import annotations

from typing import Any


class ExternalError(RuntimeError):
    """An environment of the user's cannot be used, or has failed. The message says what came and what to do."""


def require(holds: Any, problem: str) -> None:
    """Raise an `ExternalError` with this message where the condition does not hold."""
    if not holds:
        raise ExternalError(problem)
