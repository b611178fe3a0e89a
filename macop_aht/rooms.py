"""The rooms of the package, from the ground up. Imports point downwards only, lazy ones included.

A room may import itself and the rooms before it. `macop_aht/__init__.py` and `__main__.py` stand above all of them.
`tests/test_imports.py` walks through this table.
"""

ROOMS = (
    "version",  # the package's version
    "rooms",  # this table
    "util",  # hints for misspelt words, files that are written whole
    "compiling",  # kernels compiled by Numba, and their cache
    "paths",  # where content and a user's modules lie
    "onnx",  # ONNX files without the onnx package: reading, writing, checking, running
    "config",  # frozen settings, strict TOML
    "scenarios",  # worlds: batched kernels, and B copies in lockstep
    "plots",  # figures, with matplotlib
    "policies",  # whoever plays an agent; specs, perturbations, populations
    "episodes",  # the one runner that everything which plays goes through
    "zoo",  # teammate groups by name: cards, integrity, loading
    "deploy",  # the ego agent at run time, with numpy and onnxruntime alone
    "envs",  # Gymnasium, vector and PettingZoo forms; registration
    "learner",  # networks, replay, updates, rollouts
    "runs",  # a run's folder: settings, phases, decisions
    "methods",  # one algorithm box per file, and their presets
    "evaluation",  # protocol, statistics, plots, reports
    "export",  # from a run to a bundle
    "campaign",  # many runs, in processes or on Ray
    "reproduction",  # the paper's tables and figures
    "play",  # the page on which a person is the teammate, its server, and films of episodes
    "cli",  # parse, call, print
)
