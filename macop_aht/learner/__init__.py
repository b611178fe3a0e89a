"""The learning engine: stacks of networks, mixers, replay, updates and rollouts. It needs torch."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("training needs torch: pip install 'macop-aht[train]'") from error
