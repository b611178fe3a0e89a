"""The one place that decides where tensors live, and how many threads work if nobody says so."""

from __future__ import annotations

import os

import torch


def choose_device(name: str = "auto") -> torch.device:
    """`auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:1`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"unknown device {name!r}; allowed are auto, cpu, cuda and cuda:NUMBER")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r} is not there: {torch.cuda.device_count()} CUDA devices are; use auto or cpu")
    return device


def default_threads() -> int:
    """Two where there are two cores: a network's pass and its target's go side by side, and a third would find little to do."""
    return min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
