"""The learning engine: stacks of networks, mixers, replay, update, rollouts. Needs torch."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("training needs torch: pip install 'macop-aht[train]'") from error
