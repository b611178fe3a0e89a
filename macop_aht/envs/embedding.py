"""Teammates in an environment that is not the suite's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from macop_aht.envs.single import MacopEnv
from macop_aht.scenarios.external import External


def embed(
    make: Callable[..., Any] | External,
    ego: int | Sequence[Hashable] = 1,
    teammate: Any = "random",
    *,
    episodes_per_teammate: int = 1,
    render_mode: str | None = None,
    **settings: Any,
) -> MacopEnv:
    """Return a Gymnasium environment in which the ego's agents are yours, and teammates play all others.

    ```python
    env = macop_aht.embed(simple_spread_v3.parallel_env, ego=["agent_0"], teammate=my_policy)
    ```

    `make` returns a new environment; see `External` for what it may be, and for the `settings`: limit, reward, shaping,
    scripts and outcome. `ego` names the ego's agents, or says how many of the first ones they are. `teammate`,
    `episodes_per_teammate` and `render_mode` are those of `MacopEnv`.

    Raises `ExternalError` for an environment that cannot be used, with what it lacks. To train and evaluate by name, and for a
    zoo of its own, give it a name with `register` instead.
    """
    if isinstance(make, External):
        if settings or ego != 1:
            raise TypeError("make is an External, which has its own settings; give them there")
        return MacopEnv(make, teammate, episodes_per_teammate, render_mode)
    family = External(make=make, ego=ego, **settings)  # type: ignore[arg-type]
    return MacopEnv(family, teammate, episodes_per_teammate, render_mode)
