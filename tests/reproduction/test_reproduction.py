"""The paper's tables and figures from made-up rows, with numbers worked out by hand."""

import csv

import numpy as np
import pytest

from macop_aht.campaign.plan import Campaign
from macop_aht.cli import main
from macop_aht.cli.campaigns import REPRODUCTIONS as NAMES
from macop_aht.config import to_toml
from macop_aht.evaluation.rows import Row, write_rows
from macop_aht.methods import MethodRun
from macop_aht.reproduction import REPRODUCTIONS, WITHOUT_CAMPAIGN, fig_radar, table_modern
from macop_aht.reproduction.fig_crossplay import apart
from macop_aht.reproduction.material import Material, paper
from macop_aht.reproduction.table1 import by_seed, cells, improvement, modern, pairings
from macop_aht.runs.folder import RunFolder
from macop_aht.runs.records import Decision, Summary, iterations


def rows_of(agent, seed, returns, scenario="LBF4", stage="test"):
    """Rows from {teammate: the returns of its episodes}."""
    return [
        Row(
            method=agent, seed=seed, scenario=scenario, teammate=teammate, generator=teammate.split("/")[0],
            tier="unseen generator", stage=stage, episode=e, return_=result, length=25,
        )
        for teammate, results in returns.items()
        for e, result in enumerate(results)
    ]  # fmt: skip


def test_means_by_seed_by_hand():
    rows = rows_of("macop", 3, {"macop/0/0/0": [1.0, 0.0], "macop/0/0/1": [1.0, 1.0], "fcp/0/0/0": [0.0, 0.0]})
    rows += rows_of("macop", 3, {"fcp/0/0/0": [1.0] * 8}, stage="selection")  # which do not count
    rows += rows_of("macop", 4, {"macop/0/0/0": [0.0, 0.0], "macop/0/0/1": [0.0, 0.0], "fcp/0/0/0": [0.0, 1.0]})
    pairs = pairings(rows)["macop"]
    assert pairs[3, "macop/0/0/0"] == 0.5
    assert by_seed(pairs) == pytest.approx([(0.5 + 1.0 + 0.0) / 3, 0.5 / 3])
    # Balanced: macop's groups have the mean 0.75 and 0, fcp's only one 0 and 0.5.
    assert by_seed(pairs, balanced=True) == pytest.approx([0.375, 0.25])


def test_scaling_symbols_and_improvement_by_hand():
    five = np.arange(5) / 100
    column = cells(
        {
            "macop": (0.8 + five).tolist(),
            "finetune": [0.3, 0.4, 0.5, 0.6, 0.7],
            "lipo": (0.8 + five - 0.005).tolist(),  # in between: ranks 1, 3, 5, 7, 9 of 10, far from significant
            "fcp": (0.9 + five).tolist(),  # all above Macop's
        }
    )
    assert (column["macop"].value, column["finetune"].value) == (pytest.approx(0.82 / 0.5), pytest.approx(1.0))
    assert column["finetune"].std == pytest.approx(np.sqrt(0.1 / 4) / 0.5)  # squares 0.04 + 0.01 + 0 + 0.01 + 0.04
    assert [column[name].symbol for name in ("macop", "finetune", "lipo", "fcp")] == ["", "+", "≈", "-"]
    assert column["fcp"].p == pytest.approx(2 / 252)  # one of (10 over 5) orders on either side
    assert np.isnan(cells({"macop": [0.6], "finetune": [0.0]})["macop"].value)
    other = cells({"macop": [0.6], "finetune": [1.0]})
    assert other["finetune"].symbol == "n/a"
    assert other["finetune"].std is None
    columns = {"LBF4": column, "PP1": other}
    assert improvement(columns, "macop") == pytest.approx(100 * ((1.64 + 0.6) / 2 - 1))
    assert improvement(columns, "fcp") == pytest.approx(84.0)  # of LBF4 alone
    assert improvement({"PP1": {"macop": other["macop"]}}, "macop") is None


def test_the_papers_figures_agree_with_each_other():
    """Its last column is the mean of its others, as far as they are rounded; but for FCP's, which the file says."""
    for method, figures in paper()["table1"].items():
        means = [value[0] for name, value in figures.items() if name != "improvement"]
        assert len(means) == 8
        stated = 22.75 if method == "fcp" else figures.get("improvement", 0.0)
        assert 100 * (np.mean(means) - 1) == pytest.approx(stated, abs=0.6), method


def test_modern_figures_by_hand():
    rows = [row for seed in (0, 1) for row in rows_of("fcp", seed, {f"fcp/0/0/{k}": [k / 10] for k in range(20)})]
    middle, low, high, worst, seen, unseen, strange = modern(rows, pairings(rows))["fcp"]
    assert middle == pytest.approx(0.95)  # of 0.0, 0.0, 0.1, 0.1 … 1.9, 1.9
    assert low < 0.95 < high
    assert worst == pytest.approx(0.05)  # two of twenty groups
    assert (seen, unseen) == (None, None)
    assert strange == pytest.approx(0.95)


def test_iterations_by_hand():
    decisions = [
        Decision(phase="population-00", groups=["0/0", "0/1"]),
        Decision(phase="ego-01-00", heads=1),
        Decision(phase="ego-01-01", heads=2),
        Decision(phase="population-02", groups=["0/0", "2/1"], compatibility=0.25),
    ]
    assert iterations(decisions)[0][:3] == (1, 2, 2)
    assert iterations(decisions)[1] == (2, 3, 2, 0.25)


def test_what_is_off_the_diagonal():
    assert apart(np.array([[1.0, 0.2], [0.4, 1.0]])) == pytest.approx(0.3)


def finished_run(folder, groups, self_play=()):
    """A folder with the mark of a finished run."""
    run = RunFolder(folder)
    run.begin(MethodRun("LBF4"), resume=False)
    run.write_summary(Summary("LBF4", "macop", 0, groups, self_play=list(self_play)))
    return run


def learner(folder, returns):
    """A run whose ego has gone through the groups a, b, c, by its returns with them after each."""
    decisions = [Decision(groups=["a", "b", "c"])]
    decisions += [Decision(group=name, returns=own) for name, own in zip("abc", returns, strict=True)]
    run = finished_run(folder, [])
    for decision in decisions:
        run.add_decision(decision)


def test_transfer_of_learners_by_hand(tmp_path, capsys):
    made = Campaign(["LBF4"], ["macop"], [0, 1], learners=["multi-head", "finetune"])
    (tmp_path / "campaign.toml").write_text(to_toml(made))
    scenario = tmp_path / "LBF4"
    for seed, kept in ((0, 1.0), (1, 0.8)):
        learner(scenario / "multi-head-on-sequence" / str(seed), [[1, 0, 0], [kept, 1, 0], [kept, 1, 1]])
        learner(scenario / "fresh-on-sequence" / str(seed), [[0.5, 0, 0], [0, 0.8, 0], [0, 0, 0.6]])
    learner(scenario / "finetune-on-sequence" / "0", [[1, 0, 0], [0.2, 0.8, 0], [0, 0, 0.9]])
    assert main(["reproduce", "table2", "--campaign", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "missing are the runs** LBF4/finetune-on-sequence/1." in printed
    # Macop forgets nothing in one seed; in the other a is down by 0.2, then a and b by 0.1 on average: -0.15. Against 0.8 and 0.6
    # it gains 0.2, then (0.2 + 0.4) / 2: 0.25. Finetune: a -0.8, then a and b -0.9 on average; gains 0, then (0 + 0.3) / 2.
    bwt, fwt = "**-0.07 ± 0.11** (-0.01 ± 0.02)", "**0.25 ± 0.00** (0.07 ± 0.07)"
    assert f"| macop | {bwt} | {fwt} |" in printed
    with open(tmp_path / "reproduction" / "table2.csv", newline="") as file:
        found = {(line["method"], line["figure"]): line for line in csv.DictReader(file)}
    assert float(found["macop", "BWT"]["mean"]) == pytest.approx(-0.075)
    assert float(found["finetune", "BWT"]["mean"]) == pytest.approx(-0.85)
    assert float(found["finetune", "FWT"]["mean"]) == pytest.approx(0.075)
    assert (found["finetune", "FWT"]["std"], found["finetune", "FWT"]["paper"]) == ("", "0.04")
    assert (tmp_path / "reproduction" / "table2.png").stat().st_size > 1_000


def test_ablation_and_sensitivity_by_hand(tmp_path, capsys):
    variations = {
        "no-reg": {"settings": {"alpha_reg": 0.0}},
        "strong": {"settings": {"alpha_reg": 100.0}},
        "neither": {"settings": {"alpha_incom": 0.0, "alpha_div": 0.0}},
    }
    (tmp_path / "campaign.toml").write_text(to_toml(Campaign(["PP2"], ["macop"], [0, 1], variations=variations)))
    (tmp_path / "PP2").mkdir()
    values = {"macop": (0.9, 0.7), "no-reg": (0.2, 0.2), "strong": (1.0, 0.9), "neither": (0.4,)}
    rows = [
        row
        for name, own in values.items()
        for seed, value in enumerate(own)
        for row in rows_of(name, seed, {"macop/0/0/0": [value], "neither/0/0/0": [value]}, "PP2")
    ]
    write_rows(rows, tmp_path / "PP2" / "rows.csv")
    assert main(["reproduce", "fig-ablation", "--campaign", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "missing are the runs** PP2/neither/1." in printed
    assert "| macop | 1.00 ± 0.18 |" in printed  # of 0.9 and 0.7: 0.1414 / 0.8
    assert "| no-reg | 0.25 ± 0.00 n/a |" in printed
    assert "- PP2: strong is best, no-reg worst (not in the paper)." in printed
    assert main(["reproduce", "fig-sensitivity", "--campaign", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "Best: 100 (the paper's: 10)." in printed
    with open(tmp_path / "reproduction" / "fig-sensitivity.csv", newline="") as file:
        points = [(line["setting"], float(line["value"]), float(line["scaled"])) for line in csv.DictReader(file)]
    expected = [("alpha_reg", 0.0, 0.25), ("alpha_reg", 10.0, 1.0), ("alpha_reg", 100.0, 0.95 / 0.8)]
    assert [point[:2] for point in points] == [point[:2] for point in expected]
    assert [point[2] for point in points] == pytest.approx([point[2] for point in expected])
    assert all((tmp_path / "reproduction" / f"fig-{name}.png").exists() for name in ("ablation", "sensitivity"))


def test_populations_by_hand(tmp_path, capsys):
    variations = {f"trajedi-{k}": {"method": "trajedi", "settings": {"teammates": {"population": k}}} for k in (12, 2)}
    made = Campaign(["LBF4"], ["macop", "trajedi"], [0], variations=variations)
    (tmp_path / "campaign.toml").write_text(to_toml(made))
    (tmp_path / "LBF4").mkdir()
    rows = []
    for name, value in (("macop", 0.8), ("trajedi", 0.6), ("trajedi-2", 0.4), ("trajedi-12", 0.7)):
        mates = {"macop/0/0/0": [value], "trajedi/0/0/0": [value], "trajedi-12/0/0/0": [float(name == "trajedi-12")]}
        rows += rows_of(name, 0, mates)  # those of the variation do not count
    write_rows(rows, tmp_path / "LBF4" / "rows.csv")
    assert main(["reproduce", "fig-population", "--campaign", str(tmp_path)]) == 0
    assert "missing" not in capsys.readouterr().out
    with open(tmp_path / "reproduction" / "fig-population.csv", newline="") as file:
        points = {line["method"]: (int(line["population"]), float(line["scaled"])) for line in csv.DictReader(file)}
    assert list(points) == ["trajedi-2", "trajedi", "trajedi-12", "macop"]  # by size; TrajeDi's own is 6
    assert [size for size, _ in points.values()] == [2, 6, 12, 0]
    assert [value for _, value in points.values()] == pytest.approx([0.5, 0.75, 0.875, 1.0])


def test_modern_table_by_hand(tmp_path):
    """Two groups: nobody gets more than 0.5 with the first, and 1.0 with the second is its own self-play."""
    values = {("macop", 0): (0.5, 0.8), ("macop", 1): (0.4, 0.6), ("fcp", 0): (0.25, 0.8), ("fcp", 1): (0.3, 0.9)}
    rows = []
    for (agent, seed), (first, second) in values.items():
        rows += rows_of(agent, seed, {"fcp/0/0/0": [first], "fcp/0/0/1": [second], "fcp/0/0/2": [0.0]})
    rows += rows_of("macop", 0, {"fcp/0/0/0": [0.0] * 12}, stage="selection")
    best = table_modern.best_known(rows, {"fcp/0/0/1": 1.0})
    assert best == {"fcp/0/0/0": 0.5, "fcp/0/0/1": 1.0, "fcp/0/0/2": 0.0}
    # Whoever is best by every other episode counts by the rest: here not the luckier one, and not by its luck.
    lucky = rows_of("fcp", 0, {"g": [1.0, 0.5, 1.0, 0.5]}) + rows_of("macop", 0, {"g": [0.5, 1.0, 0.5, 1.0]})
    assert table_modern.best_known(lucky, {}) == {"g": 0.5}
    assert table_modern.best_known(lucky, {"g": 0.9}) == {"g": 0.9}  # never less than its own among itself
    scenarios = {"LBF4": table_modern.normalised(pairings(rows), best)}
    assert scenarios["LBF4"]["macop"] == pytest.approx(
        {(0, "fcp/0/0/0"): 1.0, (0, "fcp/0/0/1"): 0.8, (1, "fcp/0/0/0"): 0.8, (1, "fcp/0/0/1"): 0.6}
    )  # the third, with which nobody gets anything, is left out
    line = table_modern.line(scenarios, {"LBF4": rows}, "macop")
    assert (line.iqm, line.mean, line.gap) == pytest.approx((0.8, 0.8, 0.2))  # a quarter of four is cut off at each end
    assert line.iqm_low < 0.8 < line.iqm_high
    assert line.worst_tenth == pytest.approx(0.7)  # the worse group, over both seeds: (0.8 + 0.6) / 2
    assert line.selection == pytest.approx(12 / 6)  # of six pairs of ego and group
    # Macop's seeds have 0.9 and 0.7, FCP's (0.5 + 0.8) / 2 and (0.6 + 0.9) / 2: better in three pairs of four.
    assert table_modern.improvement(scenarios, "macop", "fcp") == pytest.approx(0.75)
    assert table_modern.by_tier(scenarios, {"LBF4": rows}, "macop") == [None, None, pytest.approx(0.8)]
    (tmp_path / "campaign.toml").write_text(to_toml(Campaign(["LBF4"], ["macop", "fcp"], [0, 1])))
    finished_run(tmp_path / "LBF4" / "fcp" / "0", ["0/0", "0/1", "0/2"], [0.1, 1.0, 0.0])
    write_rows(rows, tmp_path / "LBF4" / "rows.csv")
    text = REPRODUCTIONS["table-modern"](Material.load(tmp_path), tmp_path)
    assert "| 0.80 | 0.20 | 0.70 | - | 2 | - | - | 0.80 |" in text
    assert (tmp_path / "table-modern.png").exists()


def test_radar_by_hand(campaign):
    pairs = {
        "macop": {(0, "macop/0/0/0"): 1.0, (1, "macop/0/0/0"): 0.5, (0, "macop/1/0/0"): 0.0, (0, "fcp/0/0/0"): 0.2},
        "fcp": {(0, "macop/0/0/0"): 0.1, (0, "macop/1/0/0"): 0.0, (0, "fcp/0/0/0"): 0.9},
    }
    groups = fig_radar.choose(pairs)
    assert groups == ["fcp/0/0/0", "macop/0/0/0"]  # of the lowest seed
    assert fig_radar.returns(pairs, groups) == {"macop": [0.2, 0.75], "fcp": [0.9, 0.1]}
    many = {"macop": {(0, f"{name}/0/0/{k}"): 0.0 for name, n in (("macop", 20), ("fcp", 3)) for k in range(n)}}
    chosen = fig_radar.choose(many, most=8)
    assert [name.split("/")[0] for name in chosen] == ["fcp"] * 3 + ["macop"] * 5
    assert "| macop/0/0/0 | 0.80 | 0.40 | 0.60 |" in REPRODUCTIONS["fig-radar"](Material.load(campaign), campaign)
    assert (campaign / "fig-radar-LBF4.png").exists()


def test_the_environments(tmp_path, capsys):
    assert main(["reproduce", "fig-environments", "--out", str(tmp_path)]) == 0
    assert "| CN3 | 3 | 2 | 5 | 25 |" in capsys.readouterr().out
    assert len((tmp_path / "fig-environments.csv").read_text().splitlines()) == 9
    assert (tmp_path / "fig-environments.png").stat().st_size > 20_000


@pytest.fixture
def campaign(tmp_path):
    """One in which FCP's second run is missing, and PP1 was not evaluated."""
    made = Campaign(["LBF4", "PP1"], ["macop", "finetune", "fcp"], [0, 1])
    (tmp_path / "campaign.toml").write_text(to_toml(made))
    values = {("macop", 0): 0.9, ("macop", 1): 0.7, ("finetune", 0): 0.3, ("finetune", 1): 0.5, ("fcp", 0): 0.6}
    rows: list[Row] = []
    for (agent, seed), value in values.items():
        rows += rows_of(agent, seed, {"macop/0/0/0": [value], "fcp/0/0/0": [value]})
    (tmp_path / "LBF4").mkdir()
    write_rows(rows, tmp_path / "LBF4" / "rows.csv")
    return tmp_path


def test_a_partial_table_says_what_is_missing(campaign, capsys):
    assert main(["reproduce", "table1", "--campaign", str(campaign)]) == 0
    printed = capsys.readouterr().out
    assert "missing are the runs** LBF4/fcp/1, PP1/macop/0, PP1/macop/1, " in printed
    assert "| macop | **2.00 ± 0.35** (1.64 ± 0.03) | +100.0 (+64.0) |" in printed
    assert "| fcp | 1.50 n/a (1.33 ± 0.06) | +50.0 (+33.0) |" in printed
    out = campaign / "reproduction"
    assert (out / "table1.md").read_text() in printed
    assert (out / "table1.png").stat().st_size > 1_000
    with open(out / "table1.csv", newline="") as file:
        lines = {line["method"]: line for line in csv.DictReader(file)}
    assert (float(lines["macop"]["return"]), float(lines["macop"]["scaled"])) == pytest.approx((0.8, 2.0))
    assert (lines["fcp"]["seeds"], lines["fcp"]["scaled_std"], lines["fcp"]["paper"]) == ("1", "", "1.33")


def test_table1_is_of_the_papers_methods_and_of_their_groups(tmp_path):
    """Macop gets 0.8 with the paper's groups and 0 with Macop+'s: the second table alone has that, and Macop+ and CLEAR."""
    methods = ["macop", "macop+", "trajedi", "finetune", "clear"]
    (tmp_path / "campaign.toml").write_text(to_toml(Campaign(["LBF4"], methods, [0])))
    rows: list[Row] = []
    for method, value in (("macop", 0.8), ("macop+", 0.9), ("trajedi", 0.6), ("finetune", 0.4), ("clear", 0.5)):
        rows += rows_of(method, 0, {"macop/0/0/0": [value], "macop+/0/0/0": [0.4 if method == "finetune" else 0.0]})
    (tmp_path / "LBF4").mkdir()
    write_rows(rows, tmp_path / "LBF4" / "rows.csv.gz")
    first, second = REPRODUCTIONS["table1"](Material.load(tmp_path), tmp_path).split("## All methods")
    assert "| macop | **2.00** (1.64 ± 0.03) |" in first
    assert "Groups in the pool: 1 in LBF4." in first
    assert "clear" not in first
    assert "macop+" not in first
    assert "Groups in the pool: 2 in LBF4." in second
    assert "| macop | 1.00 | +0.0 |" in second
    assert "| macop+ | **1.12** n/a |" in second  # 0.45 over 0.4
    assert "| clear | 0.62 n/a |" in second
    tables = {}
    for name in ("table1", "table1-all"):
        with open(tmp_path / f"{name}.csv", newline="") as file:
            tables[name] = {line["method"]: float(line["return"]) for line in csv.DictReader(file)}
    assert tables["table1"] == {"macop": 0.8, "trajedi": 0.6, "finetune": 0.4}
    assert tables["table1-all"] == pytest.approx(
        {"macop": 0.4, "macop+": 0.45, "trajedi": 0.3, "finetune": 0.4, "clear": 0.25}
    )


def test_without_finetune_nothing_is_scaled(campaign):
    rows = rows_of("macop", 0, {"macop/0/0/0": [0.9]})
    write_rows(rows, campaign / "LBF4" / "rows.csv")
    text = REPRODUCTIONS["table1"](Material.load(campaign), campaign)
    assert "**Not scaled, since Finetune is missing:** LBF4." in text
    assert "| macop | **0.90** | - |" in text


def test_nothing_to_reproduce_says_so(campaign, tmp_path, capsys):
    for words, message in (
        (["fig-process", "--campaign", str(campaign)], "has no finished run of macop"),
        (["fig-crossplay", "--campaign", str(campaign)], "has no finished run of"),
        (["table2", "--campaign", str(campaign)], "has no learners; name some"),
        (["fig-population", "--campaign", str(campaign)], "has no variations of trajedi"),
        (["fig-ablation", "--campaign", str(campaign)], "has evaluated no variations of macop"),
        (["fig-sensitivity", "--campaign", str(campaign)], "has evaluated no variations of macop"),
        *(
            ([name, "--campaign", str(tmp_path / "nowhere")], "holds no campaign: there is no campaign.toml")
            for name in REPRODUCTIONS
        ),
    ):
        assert main(["reproduce", *words]) == 2
        assert message in capsys.readouterr().err
    (campaign / "LBF4" / "rows.csv").unlink()
    assert main(["reproduce", "table1", "--campaign", str(campaign)]) == 2
    assert "has been evaluated yet" in capsys.readouterr().err


def test_figures_of_a_run(tmp_path, capsys):
    """A run so small that it has learnt nothing has a process and a cross-play matrix all the same."""
    (tmp_path / "campaign.toml").write_text(to_toml(Campaign(["LBF4"], ["macop"], [0, 1])))
    small = ["--teammate-steps=300", "--ego-steps=300", "--max-iterations=2", "--population=2", "--test-episodes=2"]
    run = tmp_path / "LBF4" / "macop" / "0"
    assert main(["train", "LBF4", "--preset=demo", "--threads=1", f"--out={run}", *small]) == 0
    for name in ("fig-process", "fig-crossplay"):
        assert main(["reproduce", name, "--campaign", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
        assert "missing are the runs** LBF4/macop/1." in capsys.readouterr().out
    out = tmp_path / "out"
    assert {path.name for path in out.glob("*.png")} == {"fig-process-LBF4-macop-0.png", "fig-crossplay-LBF4.png"}
    groups = RunFolder(run).summary().groups
    with open(out / "fig-crossplay.csv", newline="") as file:
        pairs = [(line["ego"], line["teammate"]) for line in csv.DictReader(file)]
    assert pairs == [(ego, mate) for ego in groups for mate in groups]
    with open(out / "fig-process.csv", newline="") as file:
        steps = [(line["iteration"], line["groups"]) for line in csv.DictReader(file)]
    assert steps == [("1", "2"), ("2", str(len(groups)))]


def test_the_command_line_has_every_reproduction():
    assert set(NAMES) == set(REPRODUCTIONS) | set(WITHOUT_CAMPAIGN)
