"""Fresh: an ego with random weights for every group, as if it had met no other. The paper's alpha-tilde of forward transfer.

Its settings are Finetune's, whose ego goes on where the last group has left it.
"""

from __future__ import annotations

from typing import Any

from macop_aht.learner.networks import set_weights, weights
from macop_aht.methods import continual
from macop_aht.methods.continual import Lesson
from macop_aht.methods.finetune import FinetuneConfig
from macop_aht.methods.phases import Result, Setup, fresh_ego, whole
from macop_aht.runs.journal import Journal


def train(setup: Setup[FinetuneConfig], journal: Journal) -> Result:
    """Begin a new ego with each group in turn; return the ego and the groups."""
    return continual.train(setup, journal, teach)


def teach(setup: Setup[FinetuneConfig], lesson: Lesson) -> dict[str, Any]:
    """L_com, from random weights; nothing is remembered."""
    set_weights(lesson.net, weights(whole(fresh_ego(setup, 1, lesson.seed))))
    continual.join(setup, lesson)
    return {}
