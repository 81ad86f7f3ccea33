"""How many texts are complete and valid within a budget (beyond the paper).

JSON schemas of BFCL's functions and of JSONSchemaBench, independent texts of the language model
under the masks of XGrammar, llguidance and outlines-core (their own packages, in an environment of
their own), of LCD, GCD and P-GCD; also of XGrammar with its own limit (``max_tokens`` of the root
rule, which ends the text as soon as it can after so many tokens), and of TruncProof (arXiv
2605.13076), which keeps to the budget but knows a grammar of JSON, not the schema: its texts are
complete, and need not be valid. Who is not told the budget writes once with the largest one, and
what had ended by then counts for a smaller one. Every text is checked with ``jsonschema``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
from rich.table import Table

from pcgcd.basics.keeping import kept_with
from pcgcd.basics.numbers import draw
from pcgcd.basics.packages import package
from pcgcd.constraints import Constraint, json_schema
from pcgcd.constraints.tools.argument_types import parameters_schema
from pcgcd.decoding import Request, Target
from pcgcd.errors import MissingDependencyError, PcgcdError
from pcgcd.experiments.data.json_schemas import read_json_schemas
from pcgcd.experiments.function_calling import call_examples
from pcgcd.experiments.harness.generating import seed_of
from pcgcd.experiments.harness.methods import METHODS as KNOWN
from pcgcd.experiments.harness.methods import Method
from pcgcd.experiments.harness.options import Options, part_of
from pcgcd.experiments.harness.reports import Report, table_of, written
from pcgcd.experiments.harness.rows import Job, Key, Plan, Row
from pcgcd.experiments.harness.statistics import estimate, grouped, measure
from pcgcd.experiments.held_out import held_out
from pcgcd.experiments.peers import MaskEngine
from pcgcd.experiments.tasks import schema_prompts
from pcgcd.lm import default_model
from pcgcd.viz.style import INK, clear_frame, colours_of

NAME = "budget"
SUMMARY = "share of outputs that are complete and valid within a budget"
BUDGETS = (32, 64, 128)
LIMITED = "XGrammar, max_tokens"
TRUNCPROOF = "TruncProof"
PEERS = {
    "XGrammar": "xgrammar",
    LIMITED: "xgrammar",
    "llguidance": "llguidance",
    "outlines-core": "outlines-core",
    TRUNCPROOF: "truncproof",
}
_GIVEN_THE_BUDGET = (LIMITED, TRUNCPROOF)  # of the peers
OURS: Mapping[str, Method] = {
    "LCD": KNOWN["LCD"],
    "GCD": KNOWN["GCD"],
    "P-GCD": Method(
        "P-GCD", {"method": "pgcd", "potential": "prefix", "gcd_share": 0.0}, resampled=False
    ),
}
_SOURCES = ("BFCL", "JSONSchemaBench")
_TEXTS = 4
_LONGEST_SCHEMA = 1_500  # characters
_WHITESPACE: Literal["compact"] = "compact"


@dataclass(frozen=True)
class Schema:
    """A schema to write an instance of.

    Attributes:
        name: What it is called.
        source: Where it is from.
        schema: The schema.
        question: What is asked.
    """

    name: str
    source: str
    schema: Any
    question: str

    @cached_property
    def constraint(self) -> Constraint:
        """All instances, as our library reads it."""
        # As the other engines and the validator read it.
        return json_schema(self.schema, whitespace=_WHITESPACE, open_objects=True)

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt."""
        system = (
            f"Answer with one JSON value that satisfies this JSON schema: {json.dumps(self.schema)}"
        )
        return [{"role": "system", "content": system}, {"role": "user", "content": self.question}]

    def is_valid(self, text: str) -> bool:
        """Return whether a text is an instance, by the reference implementation."""
        jsonschema = package("jsonschema", "checking instances")
        try:
            value = json.loads(text)
            jsonschema.validate(value, self.schema, jsonschema.Draft202012Validator)
        except (ValueError, RecursionError, jsonschema.ValidationError):
            return False
        return True


def plan(options: Options) -> Plan:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`.

    ``limit`` is the number of schemas from each source; ``particles`` that of texts for each.
    """
    settings = options.settings(particles=(_TEXTS,), seeds=1, limit=12)
    texts = max(settings["particles"])
    budgets = tuple(sorted(int(b) for b in options.budgets)) if options.budgets else BUDGETS
    kept = schemas(options, settings["limit"], min(budgets))
    jobs = []
    for schema in kept:
        for name in (*PEERS, *OURS):
            for seed in range(settings["seeds"]):
                make = partial(_peer_rows if name in PEERS else _own_rows, name, options)
                together = name == "LCD" or (name in PEERS and name not in _GIVEN_THE_BUDGET)
                for own in [budgets] if together else [(budget,) for budget in budgets]:
                    keys = tuple(
                        Key(schema.name, f"{schema.source}, {budget} tokens", name, texts, seed)
                        for budget in own
                    )
                    jobs.append(Job(keys, partial(make, schema, own, keys)))
    facts = {
        **settings,
        **options.models(),
        "budgets": budgets,
        "whitespace": _WHITESPACE,
        "schemas": len(kept),
        "peers": options.peers is not None,
    }
    return Plan(facts, jobs)


def schemas(options: Options, limit: int, budget: int) -> list[Schema]:
    """Schemas whose shortest instance fits in the smallest budget, equally many from each source.

    Schemas that our library cannot read, or that are long, are left out.
    """
    calls = call_examples(options.folder)
    from_calls = [
        Schema(
            example.name,
            "BFCL",
            {
                key: value
                for key, value in _closed(
                    parameters_schema(str(tool["name"]), tool.get("parameters"), 0)
                ).items()
                if key != "$id"
            },
            f"The arguments of the function {tool['name']} for: {example.question[0]['content']}",
        )
        for example in calls
        for tool in example.tools[:1]
    ]
    rows = read_json_schemas(options.folder / "json_schema" / "jsonschemabench.jsonl")
    rows = held_out(options.folder, schema_prompts, rows, lambda row: json.dumps(row.schema))
    from_bench = [
        Schema(row.name, "JSONSchemaBench", row.schema, "Write an example.") for row in rows
    ]
    parts = []
    for every in (from_calls, from_bench):
        kept: list[Schema] = []
        for schema in part_of(every, [schema.name for schema in every], options.part):
            if len(kept) == limit:
                break
            if len(json.dumps(schema.schema)) <= _LONGEST_SCHEMA and _fits(schema, options, budget):
                kept.append(schema)
        parts.append(kept)
    return [schema for pair in zip_longest(*parts) for schema in pair if schema is not None]


def _closed(schema: Any) -> Any:
    """The schema of arguments, with no other properties where some are named."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: _closed(value) for key, value in schema.items()}
    if result.get("type") == "object" and isinstance(result.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    return result


def _fits(schema: Schema, options: Options, budget: int) -> bool:
    try:
        Target.of(schema.constraint, options.language_model.vocabulary).engine().check(budget)
    except PcgcdError:
        return False
    return True


# -- ours ---------------------------------------------------------------------------------------


def _own_rows(
    name: str, options: Options, schema: Schema, budgets: Sequence[int], keys: Sequence[Key]
) -> list[Row]:
    lm, method = options.language_model, OURS[name]
    request = Request(schema.constraint, options.prompt(schema.messages), max(budgets))
    hmm = options.guide[1] if method.needs_guide else None
    clock = time.process_time()
    (result,) = method.run(lm, [request], k=keys[0].k, seed=seed_of(keys[0]), hmm=hmm, w=options.w)
    seconds = time.process_time() - clock
    return _rated(schema, options, result.token_ids, budgets, keys, seconds)


# -- others -------------------------------------------------------------------------------------


def _engine(name: str, options: Options) -> MaskEngine:
    """Return the engine's process, started once."""
    python = options.peers
    if python is None:
        raise MissingDependencyError(f"{name} needs an environment of its own (--peers)")

    def start() -> MaskEngine:
        vocabulary, definition = options.language_model.vocabulary, _definition(options)
        return MaskEngine(python, PEERS[name], vocabulary, definition, _WHITESPACE)

    return kept_with(options, f"_{PEERS[name]}", start)


def _definition(options: Options) -> str:
    """How texts are usually cut into tokens, which llguidance asks for where they are certain."""
    lm: Any = options.language_model
    if options.lm is None and options.model is None and not hasattr(lm, "tokenizer"):
        lm = default_model()  # the same model by transformers, which brings its tokenizer
    backend = getattr(getattr(lm, "tokenizer", None), "backend_tokenizer", None)
    return "" if backend is None else str(backend.to_str())


def _peer_rows(
    name: str, options: Options, schema: Schema, budgets: Sequence[int], keys: Sequence[Key]
) -> list[Row]:
    try:
        engine = _engine(name, options)
    except MissingDependencyError as error:
        return [Row(key, text=str(error), measures={"missing": 1.0}) for key in keys]
    clock = time.process_time()
    limit = max(budgets) if name in _GIVEN_THE_BUDGET else None
    refused = engine.start(schema.schema, keys[0].k, limit)
    if refused is not None:
        return [Row(key, text=refused, measures={"refused": 1.0}) for key in keys]
    texts = masked_texts(engine, schema, options, keys[0].k, max(budgets), seed_of(keys[0]))
    return _rated(schema, options, texts, budgets, keys, time.process_time() - clock)


def masked_texts(
    engine: MaskEngine, schema: Schema, options: Options, count: int, budget: int, seed: int
) -> list[list[int]]:
    """Draw independent texts under an engine's masks; their tokens, with those that end them."""
    lm = options.language_model
    ends = set(lm.vocabulary.eos_ids)
    generator = torch.Generator().manual_seed(seed)
    session = lm.start([options.prompt(schema.messages)] * count)
    tokens: list[list[int]] = [[] for _ in range(count)]
    going = list(range(count))
    for _ in range(budget):
        allowed = torch.from_numpy(engine.masks(going))
        chances = torch.where(allowed, session.log_probs().cpu().double().exp(), 0.0)
        alive = chances.sum(1) > 0
        chosen = draw(torch.where(alive[:, None], chances, 1.0), generator).tolist()
        following = []
        for place, row in enumerate(going):
            if not alive[place]:
                continue
            tokens[row].append(chosen[place])
            if chosen[place] not in ends:
                following.append(place)
        if not following:
            break
        rows = [going[place] for place in following]
        engine.advance(rows, [tokens[row][-1] for row in rows])
        session.reindex(following)
        session.advance([tokens[row][-1] for row in rows])
        going = rows
    return tokens


def _rated(
    schema: Schema,
    options: Options,
    texts: Sequence[Sequence[int]],
    budgets: Sequence[int],
    keys: Sequence[Key],
    seconds: float,
) -> list[Row]:
    """What of the texts is complete within each budget: ended by a token, or JSON as cut off."""
    vocabulary = options.language_model.vocabulary
    ends = set(vocabulary.eos_ids)
    rows = []
    for key, budget in zip(keys, budgets, strict=True):
        cut = [list(tokens[:budget]) for tokens in texts]
        shown = [vocabulary.decode(tokens).decode("utf-8", "replace") for tokens in cut]
        valid = [schema.is_valid(text) for text in shown]
        ended = [bool(tokens) and tokens[-1] in ends for tokens in cut]
        complete = [a or _is_json(text) for a, text in zip(ended, shown, strict=True)]
        count = max(1, len(texts))
        best = max(range(len(shown)), key=lambda i: (valid[i], ended[i]), default=None)
        rows.append(
            Row(
                key,
                text=None if best is None else shown[best],
                score=round(sum(valid) / count, 6),
                seconds=round(seconds / len(keys), 4),
                measures={"complete": round(sum(complete) / count, 6)},
            )
        )
    return rows


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


# -- what is shown ------------------------------------------------------------------------------


def report(rows: Sequence[Row], facts: Mapping[str, Any]) -> Report:
    """See :class:`~pcgcd.experiments.harness.runner.Experiment`."""
    missing = {row.key.method: row.text for row in rows if "missing" in row.measures}
    refused = [row for row in rows if "refused" in row.measures]
    known = [row for row in rows if "missing" not in row.measures]
    rated = [
        row
        if "refused" not in row.measures
        else Row(row.key, score=0.0, measures={"complete": 0.0, "refused": 1.0})
        for row in known
    ]
    table = table_of(
        f"Complete and valid within the budget, % of {max(facts['particles'])} texts a schema",
        *("setting", "method", "schemas", "complete and valid, %", "complete, %"),
        *("refused schemas", "CPU s a schema"),
        left=2,
    )
    groups = grouped(rated)
    order = [*PEERS, *OURS]
    settings = list(dict.fromkeys(group[0] for group in groups))
    for setting, name, k in sorted(
        groups, key=lambda group: (settings.index(group[0]), order.index(group[1]))
    ):
        own = groups[setting, name, k]
        complete = estimate(own, measure("complete"))
        seconds = estimate(
            [row for row in own if "refused" not in row.measures], measure("seconds")
        )
        table.add_row(
            setting,
            name,
            str(len({row.key.example for row in own})),
            written(estimate(own, measure("score")), 100),
            "–" if complete is None else f"{100 * complete.mean:.1f}",
            str(sum("refused" in row.measures for row in own)),
            "–" if seconds is None else f"{seconds.mean:.2f}",
        )
    parts: list[Table | str] = [
        table,
        "A schema that an engine refuses, or does not compile in a minute, counts as not valid.",
    ]
    if any(row.key.method == TRUNCPROOF for row in known):
        parts.append("TruncProof knows a grammar of JSON, not the schema.")
    parts += [f"Not measured: {name} ({why})." for name, why in missing.items()]
    if refused:
        why = sorted({f"{row.key.method}: {row.text}"[:160] for row in refused})
        parts.append("Refusals: " + "; ".join(why[:8]) + ".")
    return Report(parts, {"valid": _figure(rated)} if rated else {})


def _figure(rows: Sequence[Row]) -> Figure:
    groups = grouped(rows)
    names = [name for name in (*PEERS, *OURS) if any(group[1] == name for group in groups)]
    figure = Figure(figsize=(9.2, 3.4), layout="constrained")
    sources = [s for s in _SOURCES if any(group[0].startswith(s) for group in groups)]
    for axes, source in zip(
        figure.subplots(1, len(sources), squeeze=False)[0], sources, strict=True
    ):
        budgets = sorted(
            {int(group[0].split(", ")[1].split()[0]) for group in groups if source in group[0]}
        )
        wide = 0.8 / len(names)
        for place, (name, colour) in enumerate(zip(names, colours_of(names), strict=True)):
            for at, budget in enumerate(budgets):
                own = [
                    row
                    for group, found in groups.items()
                    if group[:2] == (f"{source}, {budget} tokens", name)
                    for row in found
                ]
                value = estimate(own, measure("score"))
                if value is None:
                    continue
                errors = [[100 * (value.mean - value.low)], [100 * (value.high - value.mean)]]
                axes.bar(
                    [at + (place - (len(names) - 1) / 2) * wide],
                    [100 * value.mean],
                    wide,
                    yerr=errors,
                    color=colour,
                    ecolor=INK,
                    capsize=1.5,
                    error_kw={"linewidth": 0.7},
                    label=name if at == 0 else None,
                )
        axes.set_xticks(range(len(budgets)), [f"{budget} tokens" for budget in budgets])
        axes.set_title(source, color=INK, fontsize=10)
        axes.set_ylim(0, 105)
        clear_frame(axes)
    figure.axes[0].set_ylabel("complete and valid, %", color=INK, fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8.5
    )
    return figure
