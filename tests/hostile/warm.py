"""What the forkserver imports and compiles once, so that every process behind it begins with it. It opens no ONNX file."""

import torch._dynamo
import torch.utils.tensorboard  # noqa: F401

from macop_aht.episodes.matches import play
from macop_aht.learner.threads import use_threads
from macop_aht.policies import resolve
from macop_aht.scenarios import build
from tests.hostile import kinds  # noqa: F401

use_threads(1)
for scenario in ("LBF4", "SMAC1"):
    world = build(scenario)
    (policy,) = resolve("random", world, scenario)
    play(world, policy, [policy], 1, 0)
