"""What several test files need."""

import numpy as np

from macop_aht.episodes.runner import Hook


class Watch(Hook):
    """Notes what `look(state)` (B,…) sees at first and after every step; an episode that is over stays as it ended."""

    def __init__(self, look):
        self.look, self.seen = look, []

    def chosen(self, play, counted):
        if not self.seen:
            self.seen.append(np.copy(self.look(play.batch.state)))

    def stepped(self, play, counted):
        now = np.copy(self.look(play.batch.state))
        now[~play.running] = self.seen[-1][~play.running]
        self.seen.append(now)
