"""Commands that tell how good agents are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from macop_aht.cli.options import Commands, new_file, positive, seed


def _evaluate(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation.agents import BundleOptions, load_agents, scenario_of
    from macop_aht.evaluation.evaluate import evaluate, table
    from macop_aht.evaluation.rows import write_rows
    from macop_aht.scenarios import build

    scenario = arguments.scenario or scenario_of(arguments.agents)
    options = BundleOptions(arguments.selector, arguments.budget)
    agents = load_agents(arguments.agents, build(scenario), scenario, options)
    rows = [
        row
        for agent in agents
        for row in evaluate(agent, scenario, arguments.teammates, arguments.episodes, arguments.seen, arguments.seed)
    ]
    print(table(rows))
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
    print(f"{found.teammates} teammates in common: {found.first:.3f} and {found.second:.3f}")
    print(f"the second is {found.difference:+.3f}, better with {found.better}, worse with {found.worse}; {chance}")


def _crossplay(arguments: argparse.Namespace) -> None:
    from macop_aht.evaluation import crossplay
    from macop_aht.policies import resolve
    from macop_aht.scenarios import build

    world = build(arguments.scenario)
    policies = [policy for spec in arguments.policies for policy in resolve(spec, world, arguments.scenario)]
    returns = crossplay.matrix(world, policies, arguments.episodes, arguments.seed)
    names = [policy.name.removeprefix("scripted:").removeprefix("zoo:") for policy in policies]
    print(crossplay.summary(returns))
    title = f"{arguments.scenario}: ego in the row, teammate in the column"
    written = crossplay.write(returns, names, title, arguments.out)
    print(f"wrote {', '.join(map(str, written))}")
    if len(written) == 1:
        print("there is no picture without matplotlib: pip install 'macop-aht[report]'")


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
    parser = commands.add_parser("evaluate", help="tell how good an agent is with teammates that it has not met")
    parser.add_argument(
        "agents",
        nargs="+",
        metavar="AGENT",
        help="the FOLDER of an ego bundle, scripted:NAME, random, FILE.onnx, FILE.zip, or MODULE:FACTORY; several are one "
        "method's, of several runs",
    )
    parser.add_argument("--scenario", help="such as LBF4 (default: the bundle's)")
    parser.add_argument("--teammates", nargs="+", default=["zoo:test", "scripted"], help="(default: zoo:test scripted)")
    parser.add_argument("--seen", nargs="+", default=[], help="teammates that it was trained with, such as zoo:train")
    parser.add_argument("--episodes", type=positive, default=32, help="per teammate (default: %(default)s)")
    parser.add_argument("--selector", default="meta-test", help="how a bundle chooses its heads (default: %(default)s)")
    parser.add_argument(
        "--budget", type=positive, metavar="N", help="episodes per teammate for that (default: 4 per head)"
    )
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--csv", type=new_file, metavar="FILE", help="where to write a row per episode")
    parser.add_argument("--html", type=new_file, metavar="FILE", help="where to write a page with the table and plots")
    parser.set_defaults(run=_evaluate)


def add_compare(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("compare", help="compare two agents by the rows of their evaluations")
    parser.add_argument("first", metavar="A.csv")
    parser.add_argument("second", metavar="B.csv")
    parser.set_defaults(run=_compare)


def add_crossplay(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("crossplay", help="the returns of every policy with every other one")
    parser.add_argument("scenario", help="such as LBF4")
    parser.add_argument("policies", nargs="+", help="such as zoo:train scripted:nearest FILE.onnx")
    parser.add_argument("--episodes", type=positive, default=32, help="per pairing (default: %(default)s)")
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument(
        "--out",
        type=new_file,
        default=Path("crossplay"),
        metavar="OUT",
        help="write OUT.csv and, where matplotlib is installed, OUT.png (default: %(default)s)",
    )
    parser.set_defaults(run=_crossplay)


def add_pool(commands: Commands, words: Sequence[str]) -> None:
    parser = commands.add_parser("pool", help="the egos of some runs with all groups that these have generated")
    parser.add_argument("run_folders", nargs="+", metavar="RUN", help="finished runs of one scenario")
    parser.add_argument("--episodes", type=positive, default=32, help="per pairing (default: %(default)s)")
    parser.add_argument(
        "--out", type=new_file, required=True, metavar="FILE", help="where to write a row per episode, as CSV"
    )
    parser.add_argument(
        "--by-folder",
        action="store_true",
        help="call a run by the folder it is in, as NAME in NAME/0, not by its method",
    )
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--threads", type=positive, default=1, help="of the processor (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (default: %(default)s)")
    parser.set_defaults(run=_pool)
