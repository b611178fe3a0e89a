"""Commands that evaluate agents."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, add_workers, new_file, positive, seed
from macop_aht.util import show


def _evaluate(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation.agents import BundleOptions, load_agents, scenario_of, usual_teammates
    from macop_aht.evaluation.evaluate import evaluate, table
    from macop_aht.evaluation.rows import write_rows
    from macop_aht.scenarios import build

    scenario = arguments.scenario or scenario_of(arguments.agents)
    options = BundleOptions(arguments.selector, arguments.budget)
    world = build(scenario)
    agents = load_agents(arguments.agents, world, scenario, options)
    rows = [
        row
        for agent in agents
        for row in evaluate(
            agent,
            scenario,
            arguments.teammates or usual_teammates(world),
            arguments.episodes,
            arguments.seen,
            arguments.seed,
        )
    ]
    show(table(rows))
    if arguments.csv:
        write_rows(rows, arguments.csv)
    if arguments.html:
        from macop_aht.evaluation import report

        report.write(rows, arguments.html)


def _compare(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation.evaluate import compare
    from macop_aht.evaluation.rows import read_rows

    found = compare(read_rows(Path(arguments.first)), read_rows(Path(arguments.second)))
    chance = "no difference to test" if found.p is None else f"p = {found.p:.3f} (Wilcoxon, paired by teammate)"
    show(f"{found.teammates} teammates in common: {found.first:.3f} and {found.second:.3f}")
    show(f"the second is {found.difference:+.3f}, better with {found.better}, worse with {found.worse}; {chance}")


def _crossplay(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation import crossplay
    from macop_aht.policies import resolve
    from macop_aht.scenarios import build

    world = build(arguments.scenario)
    policies = [policy for spec in arguments.policies for policy in resolve(spec, world, arguments.scenario)]
    returns = crossplay.matrix(world, policies, arguments.episodes, arguments.seed)
    names = [policy.name.removeprefix("scripted:").removeprefix("zoo:") for policy in policies]
    show(crossplay.summary(returns))
    title = f"{arguments.scenario}: ego in the row, teammate in the column"
    written = crossplay.write(returns, names, title, arguments.out)
    show(f"wrote {', '.join(map(str, written))}")
    if len(written) == 1:
        show("no plot was written, which needs matplotlib: pip install 'macop-aht[report]'")


def _pool(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation import pool
    from macop_aht.learner.threads import use_threads

    use_threads(arguments.threads)
    folders = [Path(folder) for folder in arguments.run_folders]
    pool.evaluate(
        folders,
        arguments.episodes,
        arguments.out,
        arguments.device,
        arguments.seed,
        by_folder=arguments.by_folder,
    )


def add_evaluate(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("evaluate", help="measure the returns of an agent with teammates, by tier")
    parser.add_argument(
        "agents",
        nargs="+",
        metavar="AGENT",
        help="bundle (folder or shipped name), scripted:NAME, random, FILE.onnx, FILE.zip (of Stable-Baselines3) or "
        "MODULE:FACTORY; several "
        "agents are several runs of one method",
    )
    parser.add_argument("--scenario", help="name of a scenario, such as LBF4 (default: that of the bundle)")
    parser.add_argument(
        "--teammates",
        nargs="+",
        metavar="TEAMMATE",
        help="teammates to play with, as for teammate= (default: zoo:test, and scripted where there are scripts)",
    )
    parser.add_argument(
        "--seen",
        nargs="+",
        metavar="TEAMMATE",
        default=[],
        help="teammates that the agent was trained with, such as zoo:train (default: a bundle knows its own)",
    )
    parser.add_argument(
        "--episodes",
        type=positive,
        default=32,
        metavar="N",
        help="number of episodes with every teammate, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--selector",
        default="meta-test",
        help="selector of a bundle: zero-shot, meta-test, halving or thompson (default: %(default)s)",
    )
    parser.add_argument(
        "--budget",
        type=positive,
        metavar="N",
        help="number of episodes with every teammate for the choice of a head, at least 1 (default: 4 per head)",
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", default=0, help="seed of the episodes, at least 0 (default: %(default)s)"
    )
    parser.add_argument("--csv", type=new_file, metavar="FILE", help="CSV file to write, with a row per episode")
    parser.add_argument("--html", type=new_file, metavar="FILE", help="HTML page to write, with the table and plots")
    add_workers(parser)
    parser.set_defaults(run=_evaluate)


def add_compare(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "compare", help="compare two agents, paired by teammate, from the CSV files of `macop evaluate`"
    )
    parser.add_argument("first", metavar="A.csv", help="result rows of the first agent, from `macop evaluate --csv`")
    parser.add_argument("second", metavar="B.csv", help="result rows of the second agent")
    parser.set_defaults(run=_compare)


def add_crossplay(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "crossplay", help="play every policy with every other one, and write the matrix of mean returns"
    )
    parser.add_argument("scenario", help="name of a scenario, such as LBF4 (`macop scenarios` lists them)")
    parser.add_argument(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="policies as for teammate=, such as zoo:train scripted:nearest FILE.onnx",
    )
    parser.add_argument(
        "--episodes",
        type=positive,
        default=32,
        metavar="N",
        help="number of episodes per pair of policies, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", default=0, help="seed of the episodes, at least 0 (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=new_file,
        default=Path("crossplay"),
        metavar="OUT",
        help="path without extension: writes OUT.csv and, where matplotlib is installed, OUT.png (default: %(default)s)",
    )
    add_workers(parser)
    parser.set_defaults(run=_crossplay)


def add_pool(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser(
        "pool", help="evaluate the egos of several runs with all groups that these runs generated"
    )
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="folders of finished runs of one scenario")
    parser.add_argument(
        "--episodes",
        type=positive,
        default=32,
        metavar="N",
        help="number of episodes per ego and group, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=new_file, required=True, metavar="FILE", help="CSV file to write, with a row per episode"
    )
    parser.add_argument(
        "--by-folder",
        action="store_true",
        help="name a run by its parent folder (NAME in NAME/0) instead of by its method",
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", default=0, help="seed of the episodes, at least 0 (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        default=1,
        help="number of CPU threads, at least 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--device",
        default="auto",
        help="auto (CUDA if available, else the CPU), cpu, cuda or cuda:NUMBER (default: %(default)s)",
    )
    add_workers(parser)
    parser.set_defaults(run=_pool)
