"""``pcgcd experiment``: tables and figures that can be made again.

Many machines make one table: each runs a shard (``--shard 2/4``), and ``pcgcd experiment merge``
joins their folders. Under ``torchrun`` the rank is the shard, and the first process merges.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EXPERIMENTS = {
    "function-calling": "accuracy and satisfaction of function calls (Figure 2, Table 1)",
    "commongen": "BLEU-4 and coverage of sentences with given words (Figure 3)",
    "spider": "execution accuracy of SQL queries (Table 4)",
    "runtime": "milliseconds a token and slowdown (Table 2)",
    "hmm-size": "what more hidden states are worth (Table 3)",
    "nfa-dfa": "how much smaller automata with choices are (Figure 4, Table 5)",
    "bias": "distance of weighted particles to the known posterior",
    "budget": "share of outputs that are complete and valid within a budget",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command."""
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, summary in _EXPERIMENTS.items():
        _add_common(names.add_parser(name, help=summary), name)

    joining = names.add_parser("merge", help="join the journals of shards into one result")
    joining.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="with journals")
    joining.add_argument("--out", type=Path, help="folder (the first of those given)")
    joining.add_argument("--partial", action="store_true", help="also where rows are missing")

    for name, summary in (
        ("guidance", "GCD and the guided methods with equally many particles"),
        ("prompts", "write prompts to distil an HMM on"),
    ):
        add = names.add_parser(name, help=summary).add_argument
        add("--out", type=Path, default="experiments_output", help="folder (%(default)s)")
        if name == "guidance":
            add("--model", help="a model's folder, hub id or GGUF file; else the default model")
            add("--hmm", help="an HMM's folder or hub id; else the default HMM")
            add("--prompts", type=int, default=40, help="of each task (%(default)s)")
            add("--particles", type=int, nargs="+", default=[8], help="numbers of particles (8)")
            add("--seeds", type=int, default=1, help="runs of each (%(default)s)")
            add("--part", choices=("test", "development"), default="test", help="(%(default)s)")
        else:
            add(
                "--of",
                type=_listed(str),
                default=(),
                metavar="NAMES",
                help="experiments whose own wording is wanted, about examples that are in no "
                "table: function-calling, spider; without it, those of the default HMM",
            )


def _listed(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        return tuple(read(part.strip()) for part in text.split(","))

    parse.__name__ = "list"
    return parse


def _add_common(parser: argparse.ArgumentParser, name: str) -> None:
    add = parser.add_argument
    add("--out", type=Path, default=Path("experiments_output") / name, help="folder (%(default)s)")
    add("--data", type=Path, help="the data folder (PCGCD_DATA)")
    add("--model", help="a folder, a hub id or a GGUF file; else the default model")
    add(
        "--engine",
        choices=["transformers", "llamacpp", "fastest"],
        default="transformers",
        help="what computes the default model (%(default)s)",
    )
    add("--hmm", type=_listed(str), default=(), help="folders of HMMs; else the default HMM")
    add("--particles", type=_listed(int), help="such as 1,4,16; more of them add to what is there")
    add("--limit", type=int, help="the most examples; a larger one adds to what is there")
    add("--seeds", type=int, help="how often everything is repeated")
    add("--methods", type=_listed(str), help="names of methods, such as GCD+SMC,P-GCD+SMC")
    add("--budgets", type=_listed(str), help="tokens, such as +4,128 (+4: 4 more than needed)")
    add("--w", type=float, help="the weight of the language model in P-GCD")
    add(
        "--part",
        choices=["test", "development"],
        default="test",
        help="development: the examples that settings are chosen on (%(default)s)",
    )
    add("--batch", type=int, default=8, help="examples in a batch of the model (%(default)s)")
    add("--no-chat", action="store_true", help="prompts are plain texts, for models without chats")
    add("--peers", metavar="PYTHON", help="the Python of an environment that has other libraries")
    add("--shard", metavar="i/n", help="do one part of n; merge joins them")
    add("--from", dest="earlier", type=Path, metavar="DIR", help="keep rows of its results.json")
    add("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> None:
    """Run the experiment of that name."""
    if arguments.name == "guidance":
        from pcgcd.experiments import guidance

        guidance.main(
            arguments.out,
            model=arguments.model,
            hmm=arguments.hmm,
            prompts=arguments.prompts,
            particles=arguments.particles,
            seeds=arguments.seeds,
            part=arguments.part,
        )
    elif arguments.name == "prompts":
        _write_prompts(arguments.out, arguments.of)
    elif arguments.name == "merge":
        _merge(arguments)
    else:
        _run(arguments)


def _write_prompts(out: Path, names: tuple[str, ...]) -> None:
    import random

    from pcgcd.basics.choices import check_one_of
    from pcgcd.experiments import function_calling, spider, tasks

    makers = {module.NAME: module.training_prompts for module in (function_calling, spider)}
    for name in names:
        check_one_of("of", name, *makers)
    folder = tasks.data_folder()
    found = [source for name in names for source in makers[name](folder)]
    random.Random("order").shuffle(found)
    tasks.write_prompts(out, found if names else tasks.distillation_prompts(folder))


def _run(given: argparse.Namespace) -> None:
    from pcgcd.errors import InvalidParameterError
    from pcgcd.experiments.catalogue import experiment
    from pcgcd.experiments.harness import runner
    from pcgcd.experiments.harness.options import Options
    from pcgcd.learning.processes import Processes, together

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if given.shard is not None and ranks > 1:
        raise InvalidParameterError("under torchrun the rank is the shard: leave out --shard")
    shard = runner.Shard.parse(given.shard) if given.shard else runner.Shard()
    options = Options(
        model=given.model,
        engine=given.engine,
        hmm=given.hmm,
        data=given.data,
        particles=given.particles,
        limit=given.limit,
        seeds=given.seeds,
        methods=given.methods,
        budgets=given.budgets,
        w=given.w,
        part=given.part,
        batch=given.batch,
        chat=not given.no_chat,
        peers=given.peers,
    )
    chosen = experiment(given.name)
    with together():
        processes = Processes()
        if processes.count > 1:
            shard = runner.Shard(processes.rank + 1, processes.count)
        report = processes.do(
            lambda: runner.run(
                chosen,
                options,
                given.out,
                command=command_of(given),
                shard=shard,
                earlier=given.earlier,
                progress=processes.is_first and not given.quiet,
            )
        )
        if processes.count > 1 and processes.is_first:
            report = runner.merge(chosen, [given.out], given.out)
    if report is not None:
        _show(report, given.out)


def _merge(given: argparse.Namespace) -> None:
    from pcgcd.errors import CheckpointError
    from pcgcd.experiments.catalogue import experiment
    from pcgcd.experiments.harness import runner
    from pcgcd.experiments.harness.journal import journals_in, read_journal

    paths = [path for folder in given.folders for path in journals_in(folder)]
    if not paths:
        raise CheckpointError(
            f"no journal was found in {', '.join(map(str, given.folders))}; give the folders that "
            "were written with --shard"
        )
    chosen = experiment(read_journal(paths[0])[0]["experiment"])
    out = given.out or given.folders[0]
    _show(runner.merge(chosen, given.folders, out, partial=given.partial), out)


def _show(report: Any, out: Path) -> None:
    from rich.console import Console

    console = Console()
    report.print(console)
    console.print(f"written: {out / 'results.json'}, {out / 'table.md'}", highlight=False)


def command_of(given: argparse.Namespace) -> str:
    """The command that makes the same rows, without the paths of this machine."""
    words = ["pcgcd experiment", given.name]
    for name in ("model", "hmm", "particles", "limit", "seeds", "methods", "budgets", "w", "part"):
        value = getattr(given, name)
        if value in (None, ()) or (name, value) == ("part", "test"):
            continue
        shown = [value] if not isinstance(value, tuple) else list(value)
        if name in ("model", "hmm"):
            shown = [Path(item).name if Path(item).exists() else item for item in shown]
        text = ",".join(map(str, shown))
        words += [f"--{name}", f'"{text}"' if " " in text else text]
    if given.engine != "transformers":
        words += ["--engine", given.engine]
    words += ["--no-chat"] * given.no_chat
    if given.batch != 8:
        words += ["--batch", str(given.batch)]
    if given.peers:
        words += ["--peers", "<python>"]
    return " ".join(words)
