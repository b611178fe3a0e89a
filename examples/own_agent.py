"""An agent of one's own, for `macop evaluate own_agent:steady --scenario LBF4` in this folder."""

import numpy as np


def steady(world):
    """Goes on in one direction as long as it can, then turns to the next."""

    def act(obs, mask):  # (R,D) (R,A) -> (R,)
        return np.where(mask[:, 1:].any(axis=1), 1 + mask[:, 1:].argmax(axis=1), 0)

    return act
