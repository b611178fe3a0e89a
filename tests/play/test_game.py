"""Games: who sits where, what an order does, what the agent believes, and what is kept."""

from dataclasses import replace

import numpy as np
import pytest

from macop_aht.envs.registration import BUILTIN, register
from macop_aht.play.choices import offer
from macop_aht.play.game import Game
from macop_aht.play.orders import carried_out, controls, idle_action
from macop_aht.scenarios import CooperativeNavigation, build
from macop_aht.scenarios.scene import Area, Body, Scene

EAST, WEST = 4, 3


def game(scenario="LBF4", seed=1, keep=None, **changes):
    begun = Game(scenario, replace(offer(scenario).default(), **changes), seed, keep)
    begun.begin()
    return begun


@pytest.mark.parametrize("scenario", BUILTIN)
def test_every_scenario_is_played_to_its_end(scenario):
    """The ego plays agents 0..m-1, and the person agent m, who does nothing here."""
    played = game(scenario)
    m = played.world.controllable
    assert played.seat == m
    assert played.choice.agent in (f"macop-plus/{scenario}", f"macop/{scenario}")
    moved = set()
    while not played.over:
        played.step()
        assert played.last_actions[m] in (played.idle, 0)  # 0 where the person's unit is dead
        moved.update(played.last_actions[:m])
    assert len(moved) > 1
    assert played.episodes == 1
    assert played.mean_return == played.score
    assert 0 < played.step_number <= played.world.limit


def test_the_person_moves_the_agent_behind_the_egos():
    played = game(seed=3)
    before = played.scene().agents[1]
    assert played.mask[WEST]
    played.step(WEST)
    after = played.scene().agents[1]
    assert (after.x - before.x, after.y - before.y) == (-1, 0)


@pytest.mark.usefixtures("passing")
def test_seats_behind_the_person_are_the_teammates():
    """Of four agents, the ego has 0 and 1, the person 2, and the chosen policy 3; it has 2 also where nobody plays."""
    corners = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
    register("Four", CooperativeNavigation(agents=corners, landmarks=((0.5, 0.5), (-0.5, -0.5)), controllable=2))
    known = offer("Four")
    assert next(iter(known.selectors)).startswith("scripted:")  # no bundle ships for it
    choice = replace(known.default(), teammate="scripted:landmark-0")
    for person in (True, False):
        played = Game("Four", replace(choice, person=person), seed=0)
        moved = set()
        for _ in range(2):
            played.begin()
            for _ in range(4):
                played.step()
                moved |= {i for i, action in enumerate(played.last_actions) if action != played.idle}
        assert moved == ({0, 1, 3} if person else {0, 1, 2, 3})


def test_the_same_seed_and_orders_give_the_same_game():
    returns = []
    for _ in range(2):
        played, rng, seen = game("PP1", seed=5), np.random.default_rng(0), []
        while not played.over:
            played.step(int(rng.integers(5)))
            seen.append((played.last_actions, played.mind()))
        returns.append(seen)
    assert returns[0] == returns[1]


def test_beliefs_change_and_add_up_to_one():
    played = game(seed=3)
    first = played.mind()
    assert (first.kind, first.head) == ("belief", "")
    for _ in range(5):
        played.step(WEST)
    later = played.mind()
    assert later.head
    for mind in (first, later):
        assert sum(bar.value for bar in mind.bars) == pytest.approx(1, abs=1e-5)
    assert max(bar.value for bar in later.bars) > 2 * max(bar.value for bar in first.bars)
    assert all(bar.label.startswith(("group ", "own head ")) for bar in later.bars)


def test_a_selector_by_episode_shows_what_its_heads_have_returned():
    played = game(selector="meta-test")
    heads = len(played.mind().bars)
    assert played.mind().kind == "returns"
    for _ in range(heads):
        while not played.over:
            played.step()
        played.begin()
    assert [bar.tried for bar in played.mind().bars] == [1] * heads


def test_a_policy_has_no_beliefs():
    assert game(agent="random", selector="").mind().kind == "none"


def test_what_is_kept_is_what_was_played():
    kept = []
    played = game(keep=kept.append, seed=3)
    for _ in range(2):
        while not played.over:
            played.step(WEST)
        played.begin()
    assert [own.episode for own in kept] == [0, 1]
    first = kept[0]
    assert (first.teammate, first.seat, first.selector, first.stage) == ("person", 1, "zero-shot", "test")
    assert len(first.sha256) == 64
    assert first.obs.shape == (first.length, 2, len(played.world.observations))
    assert set(first.actions[:, 1]) <= {0, WEST}
    assert WEST in first.actions[:, 1]


def test_choosing_heads_is_its_own_stage():
    kept = []
    played = game("CN2", keep=kept.append, selector="meta-test")
    budget = played._ego.budget
    for _ in range(budget + 1):
        while not played.over:
            played.step()
        played.begin()
    assert [own.stage for own in kept] == ["selection"] * budget + ["test"]


def test_an_attack_out_of_reach_leads_to_the_enemy():
    played = game("SMAC1")
    attack = played.world.actions.index("attack 2")  # in the east
    own = played.scene().agents[1]
    enemy = next(body for body in played.scene().bodies if body.action == attack)
    assert enemy.x > own.x
    assert not played.mask[attack]
    played.step(attack)
    assert played.world.actions[played.last_actions[1]] == "east"
    while not played.mask[attack] and not played.over:
        played.step(attack)
    played.step(attack)
    assert played.last_actions[1] == attack


def test_orders_without_a_target():
    world = build("SMAC1")
    nothing, idle = Scene(Area(0, 0, 1, 1), ()), idle_action(world.actions)
    mask = [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert carried_out(6, idle, mask, world, nothing, 1) == idle
    assert carried_out(2, idle, [1, *[0] * 9], world, nothing, 1) == 0  # the dead
    bodies = (Body("a", 0, 0, 1, "mate", agent=1), Body("e", 0.1, -5, 1, "enemy", action=6))
    blocked = [0, 1, 1, 0, 1, 1, 0, 0, 0, 0]  # no way south
    assert world.actions[carried_out(6, idle, blocked, world, Scene(Area(0, 0, 1, 1), bodies), 1)] == "east"


def test_controls_have_keys():
    found = {control.name: control for control in controls(build("SMAC1"))}
    assert "no-op" not in found  # only for the dead
    assert found["stop"].keys == ("Space",)
    assert found["west"].keys == ("ArrowLeft", "KeyA")
    assert found["attack 3"].keys == ("Digit3", "Numpad3")
    assert not found["attack 3"].held
    assert found["west"].held


def test_only_what_is_offered_can_be_chosen():
    known = offer("LBF4")
    now = known.default()
    assert now.agent == "macop-plus/LBF4"
    assert known.chosen(now, "", "", "random", False).teammate == "random"
    assert known.chosen(now, "", "meta-test", "", True).selector == "meta-test"
    assert known.chosen(now, "random", "", "", True).selector == ""
    for wrong in (("/etc/passwd", "", ""), ("", "nothing", ""), ("", "", "FILE.onnx"), ("os:getcwd", "", "")):
        with pytest.raises(ValueError, match=r"Allowed"):
            known.chosen(now, *wrong, True)


def test_the_agent_that_was_asked_for_comes_first():
    assert offer("LBF4", "macop/LBF4").default().agent == "macop/LBF4"
    assert offer("LBF4", "scripted:corner-ne").default().selector == ""
    assert offer("LBF4", selector="meta-test").default().selector == "meta-test"
    with pytest.raises(ValueError, match="plays PP1; give one of LBF4"):
        offer("LBF4", "macop/PP1")
    with pytest.raises(ValueError, match="has no selector 'zero-shoot'; did you mean 'zero-shot'"):
        offer("LBF4", selector="zero-shoot")
    with pytest.raises(ValueError, match="unknown teammate 'macop/LBF44'"):
        offer("LBF4", "macop/LBF44")
