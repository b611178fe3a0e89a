"""Pictures: all bodies are on them, in the right place."""

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import macop_aht
from macop_aht.envs.registration import BUILTIN, env_id
from macop_aht.envs.single import MacopEnv
from macop_aht.scenarios import MARINE, ZEALOT, build
from macop_aht.scenarios.batch import Batch
from macop_aht.scenarios.drawing import HEADER, WIDTH, Screen
from macop_aht.scenarios.palette import COLOURS


def share(picture, role):
    """Return the share of the picture that has a role's colour."""
    colour = [int(COLOURS[role][i : i + 2], 16) for i in (1, 3, 5)]
    return (np.abs(picture.astype(int) - colour).max(axis=-1) < 12).mean()


ROLES = {
    "LBF": ("ego", "mate", "food"),
    "PP": ("ego", "mate", "prey"),
    "CN": ("ego", "mate", "landmark"),
    "SMAC": ("ego", "mate", "enemy", "health"),
}


@pytest.mark.parametrize("name", BUILTIN)
def test_pictures_show_everybody(name):
    env = gym.make(env_id(name), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (WIDTH + HEADER, WIDTH, 3)
    assert picture.dtype == np.uint8
    for role in ROLES[name.rstrip("1234")]:
        assert share(picture, role) > 1e-4, role
    moved = picture
    for _ in range(3):
        env.step(env.action_space.sample())
        assert not np.array_equal(moved, moved := env.render())


def test_places_on_the_grid():
    env = gym.make("MacopLBF4-v0", render_mode="rgb_array", teammate="scripted:corner-se")
    obs, _ = env.reset(seed=0)
    picture = env.render()[HEADER:]
    cell = WIDTH // 6
    tiles = {(r, c): picture[r * cell : (r + 1) * cell, c * cell : (c + 1) * cell] for r in range(6) for c in range(6)}
    assert {at for at, tile in tiles.items() if share(tile, "food") > 0.1} == {(0, 0), (0, 5), (5, 0), (5, 5)}
    assert [at for at, tile in tiles.items() if share(tile, "ego") > 0.1] == [tuple(obs[8:10])]
    assert [at for at, tile in tiles.items() if share(tile, "mate") > 0.1] == [tuple(obs[10:12])]


def test_health_bars_shrink():
    env = gym.make("MacopSMAC1-v0", render_mode="rgb_array")
    env.reset(seed=0)
    full = share(env.render(), "health")
    env.unwrapped._game.batch.state.health[:] /= 3
    assert share(env.render(), "health") == pytest.approx(full / 3, rel=0.25)


def test_text():
    env = gym.make("MacopLBF1-v0", render_mode="ansi", teammate="scripted:path-south")
    obs, _ = env.reset(seed=0)
    caption, _, *lines, _ = env.render().split("\n")
    assert caption == "step 0/25   return 0.00"
    grid = [line.strip("|").split(" ") for line in lines]
    assert (len(grid), len(grid[0])) == (5, 5)
    assert grid[4][4] == "F"
    assert grid[int(obs[2])][int(obs[3])] == "0"
    assert grid[int(obs[4])][int(obs[5])] == "1"
    for name, glyphs in {"PP1": "1o", "CN3": "012x", "SMAC1": "01m", "SMAC2": "01Z"}.items():
        text = macop_aht.parallel_env(name, render_mode="ansi")
        text.reset(seed=0)
        assert set(text.render().split("\n", 1)[1]) == set(glyphs) | set("|- \n")


def drawn(world, **state):
    """Return the text of a world with overwritten entries of its state, without the caption."""
    batch = Batch(world, 1)
    batch.reset()
    for name, value in state.items():
        getattr(batch.state, name)[0, : len(value)] = value
    return Screen("ansi", 5).show(world, batch.state, 0, 0, 0.0).split("\n", 1)[1]


def test_far_landmarks_are_shown():
    world = build("CN2", landmarks=((0, 3), (0, -3)))
    assert drawn(world).count("x") == 2
    picture = Screen("rgb_array", 5)
    batch = Batch(world, 1)
    batch.reset()
    assert share(picture.show(world, batch.state, 0, 0, 0.0), "landmark") > 1e-3


def test_units_on_the_border_are_shown():
    for corner in ((32, 0), (0, 32), (32, 32), (0, 0)):
        text = drawn(build("SMAC1"), pos=[corner, (16, 16)])
        assert "0" in text, corner
        assert "1" in text


def test_enemies_have_their_own_letters():
    golem, ogre = (replace(MARINE, name=name) for name in ("golem", "Ogre"))
    text = drawn(build("SMAC1", enemies=(MARINE, ZEALOT, golem, ogre)))
    assert set(text) == set("01mZGO") | set("|- \n")


def test_closing_a_window_leaves_the_others_open(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(MacopEnv.metadata, "render_fps", 0)
    first, second = (gym.make(env_id(name), render_mode="human") for name in ("PP2", "LBF4"))
    for env in (first, second):
        env.reset(seed=0)
        env.step(1)
    first.close()
    second.step(1)
    second.close()
    import pygame

    assert pygame.mixer.get_init() is None  # only the display was started


def test_window_and_vector(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setitem(MacopEnv.metadata, "render_fps", 0)
    env = gym.make("MacopPP2-v0", render_mode="human")
    env.reset(seed=0)
    env.step(1)
    assert env.unwrapped._screen._window is not None
    env.close()
    assert env.unwrapped._screen._window is None
    envs = gym.make_vec("MacopCN2-v0", num_envs=3, render_mode="rgb_array")
    envs.reset(seed=0)
    assert [picture.shape for picture in envs.render()] == [(WIDTH + HEADER, WIDTH, 3)] * 3
