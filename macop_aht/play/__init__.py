"""Playing and watching: a page in the browser on which a person is the unknown teammate, and films of episodes.

choices     who can sit where
game        one game: the ego in its seats, a person or a policy in the others
mind        what the agent believes
messages    what page and server tell each other
session     one open page: its game, its clock and its limits
server      the HTTP server
watch       films of episodes, as GIF, MP4 or text
"""

from importlib.util import find_spec


def require_server() -> None:
    """Raise `ImportError` with the extra to install where the server's packages are missing."""
    missing = [name for name in ("starlette", "uvicorn", "websockets") if find_spec(name) is None]
    if missing:
        raise ImportError(f"playing needs {', '.join(missing)}: pip install 'macop-aht[play]'")
