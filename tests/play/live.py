"""A server in a process of its own, as `macop play` starts it, and raw websockets to it."""

import json
import subprocess
import sys
from contextlib import contextmanager

from websockets.sync.client import connect


@contextmanager
def serving(*words):
    """Give the address of a server on a free port."""
    command = [sys.executable, "-m", "macop_aht", "play", "--no-browser", "--port=0", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("playing at http://"), line + process.stderr.read()
            yield line.split()[2].rpartition("/")[0]
        finally:
            process.terminate()
            _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors, errors


class Page:
    """What a page does, without the page."""

    def __init__(self, url, scenario="LBF4", origin=None, **options):
        where = f"{url.replace('http', 'ws')}/{scenario}/game"
        self._connection = connect(where, origin=origin or url, max_size=None, **options)

    def __enter__(self):
        self.socket = self._connection.__enter__()
        return self

    def __exit__(self, *reason):
        self._connection.__exit__(*reason)

    def send(self, **message):
        self.socket.send(json.dumps(message))

    def hear(self, kind, timeout=30):
        """Return the next message of that kind; others before it are passed over."""
        while True:
            message = json.loads(self.socket.recv(timeout=timeout))
            if message["type"] == kind:
                return message
