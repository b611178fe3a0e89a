"""The device of tensors, and the default number of threads."""

from __future__ import annotations

import os

import torch


def choose_device(name: str = "auto") -> torch.device:
    """Return a device: `auto` (CUDA if available, else CPU), `cpu`, `cuda` or `cuda:NUMBER`.

    Raises `ValueError` for other names, and for a CUDA device that the machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {name!r}; allowed are auto, cpu, cuda and cuda:NUMBER")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device {name!r} is not there: there are {torch.cuda.device_count()} CUDA devices; use auto or cpu"
        )
    return device


def default_threads() -> int:
    """Return the default number of threads: 2, or 1 on one core.

    Two threads run the passes of a network and of its target at the same time. A third thread would have little to do.
    """
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
