"""What several test files need."""

import numpy as np

from macop_aht.episodes.runner import Hook


class Watch(Hook):
    """Notes what `look(state)` sees at first and after every step."""

    def __init__(self, look):
        self.look, self.seen = look, []

    def chosen(self, play, counted):
        if not self.seen:
            self.seen.append(np.copy(self.look(play.batch.state)))

    def stepped(self, play, counted):
        self.seen.append(np.copy(self.look(play.batch.state)))
