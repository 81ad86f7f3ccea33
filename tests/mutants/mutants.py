"""The mutants: small mistakes in the code, each with the tests that must notice it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake.

    Attributes:
        name: What goes wrong.
        file: A file of ``pcgcd``.
        old: Text that occurs in it exactly once.
        new: What takes its place.
        tests: The tests that must fail, of the folder that owns the code.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_DECODING = "tests/decoding/"
_FAULTS = (_DECODING + "test_faults.py",)
_PORTFOLIO = (_DECODING + "test_portfolio.py",)
_STEPS = (_DECODING + "test_steps.py",)
_TARGETS = (_DECODING + "test_targets.py",)
_RESAMPLING = (_DECODING + "test_resampling.py",)
_RANDOMNESS = (_DECODING + "test_randomness.py",)
_ENGINE = ("tests/engine/test_algorithm_1.py", "tests/engine/test_guides.py")
_ALGEBRA = ("tests/automata/test_algebra.py",)
_AUTOMATON = ("tests/automata/test_automaton.py",)
_MASKS = ("tests/automata/test_masks.py",)
_SPELLING = ("tests/decoding/test_spelling.py",)
_CONES = ("tests/engine/test_cones.py",)
_TILES = ("tests/engine/test_backends.py",)
_HEDGING = ("tests/decoding/test_hedging.py",)
_LAZY = ("tests/engine/test_lazy.py",)
_UNFOLDING = ("tests/automata/test_unfolding.py",)
_BLOCKS = ("tests/automata/test_blocks.py",)
_LISTS = ("tests/constraints/test_json_lists.py",)
_COMPILATION = ("tests/automata/test_compilation.py",)
_LIKENESS = ("tests/constraints/test_json_likeness.py",)
_CHAINS = ("tests/automata/test_chains.py",)
_HMM = ("tests/hmm/test_hmm.py",)
_SHARED_PREFIX = ("tests/lm/test_shared_prefix.py",)
_COPYING = ("tests/hmm/test_copying.py",)
_SHARING = ("tests/experiments/test_sharing.py",)
_PEERS = ("tests/experiments/test_budget_peers.py",)
_WALKS = ("tests/hmm/test_walks.py",)
_LIFTING = ("tests/automata/test_lifting.py",)
_KEYWORDS = ("tests/constraints/test_keywords.py",)
_TOOLS = ("tests/constraints/test_tools.py",)
_SQL = ("tests/constraints/test_sql.py",)
_BOUNDS = ("tests/constraints/test_json_bounds.py",)
_CLOSED = ("tests/constraints/test_json_closed.py",)
_VOCABULARY = ("tests/constraints/test_json_vocabulary.py",)
_GRAMMAR = ("tests/constraints/test_grammar.py",)

MUTANTS = (
    # -- decoding ---------------------------------------------------------------------------------
    Mutant(
        "P-GCD's w and 1 - w exchanged, the circuit",
        "decoding/proposals.py",
        "mixture = circuit.log_weights.mul(1 - self.w)",
        "mixture = circuit.log_weights.mul(self.w)",
        _FAULTS,
    ),
    Mutant(
        "P-GCD's w and 1 - w exchanged, the language model",
        "decoding/proposals.py",
        "alpha=self.w)",
        "alpha=1 - self.w)",
        _FAULTS,
    ),
    Mutant(
        "the guide does not see the prompt",
        "decoding/targets.py",
        "return engine_of(given(self.guide, prompt, samples), self.automaton)",
        "return engine_of(self.guide, self.automaton)",
        _TARGETS,
    ),
    Mutant(
        "resampling above the threshold",
        "decoding/population.py",
        "size > threshold * len(members) * (1 + 1e-9)",
        "size < threshold * len(members) * (1 + 1e-9)",
        _FAULTS,
    ),
    Mutant(
        "the potential of a twisted proposal is not tempered",
        "decoding/potentials.py",
        "(1 - self.w) * log_chance",
        "log_chance",
        _STEPS,
    ),
    Mutant(
        "a twisted proposal with w instead of 1 - w",
        "decoding/proposals.py",
        "twisted = ahead.log_weights.mul(1 - self.w)",
        "twisted = ahead.log_weights.mul(self.w)",
        _STEPS,
    ),
    Mutant(
        "the potential before the step is forgotten",
        "decoding/population.py",
        "gain = log_p - log_q + log_twist - before",
        "gain = log_p - log_q + log_twist",
        _STEPS,
    ),
    Mutant(
        "weights without the proposal",
        "decoding/population.py",
        "gain = log_p - log_q + log_twist - before",
        "gain = log_p + log_twist - before",
        _STEPS,
    ),
    Mutant(
        "resampling forgets the evidence",
        "decoding/population.py",
        "        evidence[task] += _log_mean(chances)\n",
        "",
        _FAULTS,
    ),
    Mutant(
        "weights stay after resampling",
        "decoding/population.py",
        "log_weights[members] = (population.log_weights[members] - chances)[list(chosen)]",
        "pass",
        _FAULTS,
    ),
    Mutant(
        "stretches go on after resampling, of other particles",
        "decoding/population.py",
        "        log_parts[members] = shares_after(",
        "        _ = shares_after(",
        _PORTFOLIO,
    ),
    Mutant(
        "a portfolio without memory: tokens are mixed, not stretches",
        "decoding/portfolio.py",
        "prior = log_stretch.masked_fill(~able, -torch.inf)",
        "prior = (0 * log_stretch).masked_fill(~able, -torch.inf)",
        _PORTFOLIO,
    ),
    Mutant(
        "each particle is weighed by its own part",
        "decoding/portfolio.py",
        "torch.where(own == -math.inf, own, (prior + log_parts).logsumexp(1))",
        "own",
        _PORTFOLIO,
    ),
    Mutant(
        "all parts have equal shares",
        "decoding/portfolio.py",
        "torch.tensor([share for _, share in components_of(proposal)]",
        "torch.tensor([1.0 for _ in components_of(proposal)]",
        _PORTFOLIO,
    ),
    Mutant(
        "guided methods without GCD",
        "decoding/requests.py",
        "if ahead and share:",
        "if ahead and not share:",
        _PORTFOLIO,
    ),
    Mutant(
        "rejection stops at a success",
        "decoding/rejection.py",
        "wanted / (attempts - 1)",
        "wanted / attempts",
        _FAULTS,
    ),
    Mutant(
        "systematic resampling without a shift",
        "decoding/resampling.py",
        "return _invert(weights, (torch.arange(k) + rng.uniform(1)) / k)",
        "return _invert(weights, (torch.arange(k) + 0.5) / k)",
        _RESAMPLING,
    ),
    Mutant(
        "residual resampling draws the rest by the whole weights",
        "decoding/resampling.py",
        "_invert(rest / rest.sum(), rng.uniform(left))",
        "_invert(weights, rng.uniform(left))",
        _RESAMPLING,
    ),
    Mutant(
        "the probability of a drawn column without its block",
        "decoding/randomness.py",
        "log_q = (_at(sums, block) / total * within).log()",
        "log_q = within.log()",
        _RANDOMNESS,
    ),
    Mutant(
        "automata enter decoding without padding",
        "decoding/targets.py",
        "ready = [padded(fa, vocabulary.eos_ids) for fa in automata]",
        "ready = list(automata)",
        _TARGETS,
    ),
    Mutant(
        "GCD allows what does not fit in the budget",
        "decoding/proposals.py",
        "        return step.masked(within_budget=True)\n\n\ndef check_weight",
        "        return step.masked(within_budget=False)\n\n\ndef check_weight",
        _STEPS,
    ),
    # -- engine -----------------------------------------------------------------------------------
    Mutant(
        "look-aheads that the guide's own opinion of the token is part of",
        "engine/state.py",
        "log_weights = joint.log_weights - marginal",
        "log_weights = joint.log_weights - 0 * marginal.nan_to_num()",
        _STEPS,
    ),
    Mutant(
        "tokens that a guide does not know are as good as impossible",
        "engine/state.py",
        "log_weights.masked_fill(marginal.isneginf(), 0.0)",
        "log_weights.masked_fill(marginal.isneginf(), LOG_SMALLEST)",
        _TARGETS,
    ),
    Mutant(
        "filters are not normalised",
        "engine/filtering.py",
        "return joint / mass.where(mass > 0, 1), mass",
        "return joint, mass",
        _ENGINE,
    ),
    Mutant(
        "paths of an ambiguous automaton are not added up",
        "engine/tracks.py",
        "np.logaddexp.at(log_counts,",
        "np.maximum.at(log_counts,",
        _ENGINE,
    ),
    Mutant(
        "messages without the scale of the level below",
        "engine/recursion.py",
        "log_edges = log_sums[edges.label] + below.log_scale[target] + edges.log_weight",
        "log_edges = log_sums[edges.label] + edges.log_weight",
        _ENGINE,
    ),
    Mutant(
        "messages without their own scale",
        "engine/recursion.py",
        "return rows.to(self.dtype), log_scale + log_messages + log_rows",
        "return rows.to(self.dtype), log_scale + log_messages",
        _ENGINE,
    ),
    Mutant(
        "one token too many remains",
        "engine/tracks.py",
        "return GraphTrack(graph, move.target, log_counts, self.remaining - 1, token)",
        "return GraphTrack(graph, move.target, log_counts, self.remaining, token)",
        _ENGINE,
    ),
    Mutant(
        "lazily, one token too many remains",
        "engine/tracks.py",
        "return LazyTrack(self.graph, after, self.remaining - 1, token)",
        "return LazyTrack(self.graph, after, self.remaining, token)",
        _LAZY,
    ),
    Mutant(
        "lazily, bytes that are no tokens are counted as tokens",
        "automata/masks/lazy.py",
        "distance = self._table.distance if self._spells_all else self.distance",
        "distance = self._table.distance",
        _LAZY,
    ),
    Mutant(
        "a tile takes a token for one of its leader's class",
        "engine/backends/numba_kernels.py",
        "if _alike(group, leader, classes[t]):\n            code |= 1 << t",
        "if group[0, classes[t]] >= 0:\n            code |= 1 << t",
        _TILES,
    ),
    Mutant(
        "a tile writes scores of rows in which its tokens are not allowed",
        "engine/backends/numba_kernels.py",
        "            if group[row, leader] >= 0:\n                for t in range(TOKENS):",
        "            if group[row, leader] >= -1:\n                for t in range(TOKENS):",
        _TILES,
    ),
    Mutant(
        "rows of a tile stay where they were put",
        "engine/backends/numba_backend.py",
        "result = result[torch.from_numpy(np.argsort(order))]",
        "pass",
        _TILES,
    ),
    Mutant(
        "of several spans of hidden states the last one counts",
        "engine/backends/numba_kernels.py",
        "out[row, token + t] += found[t][row]",
        "out[row, token + t] = found[t][row]",
        _TILES,
    ),
    Mutant(
        "likeness: names that are keywords elsewhere are left out",
        "constraints/json_schema/likeness.py",
        '    | {"dependentRequired": _NAMES}\n',
        "",
        _LIKENESS,
    ),
    Mutant(
        "likeness: constants are read like schemas",
        "constraints/json_schema/likeness.py",
        "dict.fromkeys(DATA_KEYWORDS, _ANY)",
        "dict.fromkeys(DATA_KEYWORDS, _KEYWORDS)",
        _LIKENESS,
    ),
    Mutant(
        "likeness: the order of properties is forgotten",
        "constraints/json_schema/likeness.py",
        "for name, item in value.items():",
        "for name, item in sorted(value.items()):",
        _LIKENESS,
    ),
    Mutant(
        "likeness: references of two resources are taken for each other",
        "constraints/json_schema/document.py",
        "said = (self._likeness.number(schema), base, closed)",
        'said = (self._likeness.number(schema), "", closed)',
        _LIKENESS,
    ),
    Mutant(
        "keywords: one word counts for two concepts",
        "constraints/keywords/automaton.py",
        "for bits in overlapping_concepts(",
        "for bits in () and overlapping_concepts(",
        _KEYWORDS,
    ),
    Mutant(
        "keywords: what must be in order is taken in any",
        "constraints/keywords/disjoint.py",
        "if progress < len(self.order) and ended >> self.order[progress] & 1:",
        "if progress < len(self.order):",
        _KEYWORDS,
    ),
    Mutant(
        "tools: nullable is read in JSON Schema too",
        "constraints/tools/argument_types.py",
        "(self.openapi or capital)",
        "(self.openapi or capital or True)",
        _TOOLS,
    ),
    Mutant(
        "tools: arguments beside the keywords of a schema are lost",
        "constraints/tools/argument_types.py",
        "    _check_described(tool, schema, converter.references)\n",
        "",
        _TOOLS,
    ),
    Mutant(
        "sql: labels may be reserved words",
        "constraints/sql/lexical.py",
        '                if "" not in rests:\n                    diagram.skip(state, end)\n',
        "                diagram.skip(state, end)\n",
        _SQL,
    ),
    Mutant(
        "sql: GROUP BY takes the number of a second result, which may be an aggregate",
        "constraints/sql/select.py",
        'self._rest(second, Live(("1", "2"), ("1",)), finish)',
        'self._rest(second, Live(("1", "2"), ("1", "2")), finish)',
        _SQL,
    ),
    Mutant(
        "json: objects stay open",
        "constraints/json_schema/specs.py",
        "only = Rule(tuple((name, TRUE) for name in named), others=FALSE)",
        "only = Rule(tuple((name, TRUE) for name in named), others=TRUE)",
        _CLOSED,
    ),
    Mutant(
        "json: what is contained is closed, and so counted wrongly",
        "constraints/json_schema/keywords.py",
        'holds(document.child(document.condition(place), "contains"))',
        'holds(document.child(place, "contains"))',
        _CLOSED,
    ),
    Mutant(
        "json: conditions are closed",
        "constraints/json_schema/reading.py",
        'holds(self.document.child(self.document.condition(place), "if"))',
        'holds(self.document.child(place, "if"))',
        _CLOSED,
    ),
    Mutant(
        "json: what the other alternative requires counts as named",
        "constraints/json_schema/reading.py",
        "for conditions in (False, True):",
        "for conditions in (True,):",
        _CLOSED,
    ),
    Mutant(
        "json: misspelled keywords are only warned of",
        "constraints/json_schema/vocabulary.py",
        "            if near is not None:\n",
        "            if False:\n",
        _VOCABULARY,
    ),
    Mutant(
        "json: recursion is cut in silence",
        "constraints/json_schema/building.py",
        "            self.reader.cut_at[self._pointer(formula)] = None\n",
        "            pass\n",
        _BOUNDS,
    ),
    Mutant(
        "grammar: rules are cut in silence",
        "constraints/grammar/grammar.py",
        "            self.cut += _referred_back(names, bodies)\n",
        "            pass\n",
        _GRAMMAR,
    ),
    Mutant(
        "json: escapes by number are left out in silence",
        "constraints/json_schema/building.py",
        "            if not self.style.escapes:\n",
        "            if False:\n",
        _BOUNDS,
    ),
    Mutant(
        "likeness: bounds are reported at the first place only",
        "constraints/json_schema/document.py",
        "self._alike[known.pointer, pointer] = None",
        "pass",
        _LIKENESS,
    ),
    Mutant(
        "unfolding: a block is entered with the wrong classes of bytes",
        "automata/lifting/unfolding.py",
        "entry = targets[self.samples]",
        "entry = targets[: len(self.samples)]",
        _UNFOLDING,
    ),
    Mutant(
        "subsets: what a set of labels was split into is found by fewer labels",
        "automata/kernels/subsets.py",
        "pattern = intern_list(patterns.labels, labels, 0, num_labels)",
        "pattern = intern_list(patterns.labels, labels, 0, min(num_labels, 2))",
        _COMPILATION,
    ),
    Mutant(
        "subsets: a part has the states of one of its labels only",
        "automata/kernels/subsets.py",
        "for i in range(patterns.begin[part], patterns.begin[part + 1]):",
        "for i in range(patterns.begin[part], patterns.begin[part] + 1):",
        _COMPILATION,
    ),
    Mutant(
        "subsets: after room was made, a set goes on with its next part",
        "automata/kernels/subsets.py",
        "    progress.edges[0], progress.work[0], progress.ticket[0] = edges, work, ticket",
        "    progress.part[0] += reason == _STATE_ROOM\n"
        "    progress.edges[0], progress.work[0], progress.ticket[0] = edges, work, ticket",
        _COMPILATION,
    ),
    Mutant(
        "a token of a tile is taken for its neighbour",
        "engine/backends/numba_kernels.py",
        "a20 += x2 * y0\n        y1 = m1[z]",
        "a20 += x1 * y0\n        y1 = m1[z]",
        _TILES,
    ),
    Mutant(
        "the rest of a prefix without its paths",
        "engine/backward.py",
        "logs.append(level.log_scale[rows] + track.log_counts[kept])",
        "logs.append(level.log_scale[rows])",
        _ENGINE,
    ),
    Mutant(
        "of a large automaton, messages that are asked for together overwrite each other",
        "engine/cones.py",
        "mask[wanted.get(r, nothing)] = True",
        "mask[wanted.get(r, nothing) if not len(needed) else nothing] = True",
        _CONES,
    ),
    Mutant(
        "of a large automaton, rows that come later take the places of the first",
        "engine/recursion.py",
        "place[slots] = len(self.rows) + np.arange(len(slots))",
        "place[slots] = np.arange(len(slots))",
        _CONES,
    ),
    Mutant(
        "of a large automaton, every message is computed, whatever was written",
        "engine/cones.py",
        "mask[needed] = True  # by the level above",
        "mask[:] = True",
        _CONES,
    ),
    Mutant(
        "of a large automaton, messages are forgotten while a prefix is in it",
        "engine/cones.py",
        "if each._users.are_gone:",
        "if each._levels:",
        _CONES,
    ),
    Mutant(
        "of a large automaton, only the levels of the present step are kept",
        "engine/cones.py",
        "    kept.add(middle)\n",
        "",
        _CONES,
    ),
    # -- automata ---------------------------------------------------------------------------------
    Mutant(
        "what a walk has met and is not written yet is taken as a dead end",
        "automata/masks/lazy.py",
        "and self._table.complete(int(self._out.pool[0])):",
        "and False:",
        _UNFOLDING,
    ),
    Mutant(
        "the copies of a block end where the first one does",
        "automata/lifting/unfolding.py",
        "key = (id(part), end)",
        "key = (id(part), 0)",
        _UNFOLDING,
    ),
    Mutant(
        "states that are not written look as if they were",
        "automata/lifting/unfolding.py",
        "(1, 256), _UNWRITTEN",
        "(1, 256), 0",
        (*_UNFOLDING, *_CHAINS),
    ),
    Mutant(
        "walks are shared whatever the bytes of a pattern are",
        "automata/lifting/patterns.py",
        "blake2b(row, digest_size",
        "blake2b(row[:0], digest_size",
        _UNFOLDING,
    ),
    Mutant(
        "walks are shared whatever further states do",
        "automata/kernels/templates.py",
        "stamp[target] == now or not _is_named(moves, target, pool, place):",
        "stamp[target] == now:",
        (*_UNFOLDING, *_LIFTING),
    ),
    Mutant(
        "classes of bytes share a slot if some of their labels are the same",
        "automata/kernels/tables.py",
        "same &= label_class[labels[i], one] == label_class[labels[i], other]",
        "same = label_class[labels[i], one] == label_class[labels[i], other]",
        _LIFTING,
    ),
    Mutant(
        "a state that cannot accept keeps its edges over tokens",
        "automata/kernels/renumbering.py",
        "            keys[place[s]] = np.int64(number[target[i]]) << 32 | rank[label[i]]\n",
        "            keys[place[s]] = rank[label[i]]\n",
        _LIFTING,
    ),
    Mutant(
        "the ways into blocks from far inside a large copy are left out",
        "automata/lifting/unfolding.py",
        "begin = bisect_left(ways, first, key=itemgetter(0))",
        "begin = 0 if first == 0 else len(ways)",
        (*_UNFOLDING, *_CHAINS),
    ),
    Mutant(
        "what a hedge leaves out of a resampling is forgotten",
        "decoding/population.py",
        "(population.log_weights[members] - chances)[list(chosen)]",
        "0.0",
        _HEDGING,
    ),
    Mutant(
        "resampling relies on the potential alone",
        "decoding/potentials.py",
        "    if share == 0:\n        return log_weights\n    dead",
        "    if share >= 0:\n        return log_weights\n    dead",
        _HEDGING,
    ),
    Mutant(
        "with few particles none is drawn from GCD",
        "decoding/requests.py",
        "return max(_GCD_SHARE, 1 / particles) if particles > 1 else _GCD_SHARE",
        "return _GCD_SHARE",
        _HEDGING,
    ),
    Mutant(
        "blocks that stay closed are taken for those inside of them",
        "automata/expressions/compilation.py",
        "return graph.reduced(), inside\n        graph, inside = larger.classified()",
        "return graph.reduced(), inside[::-1]\n        graph, inside = larger.classified()",
        _BLOCKS,
    ),
    Mutant(
        "ways on that begin alike are met only within one label",
        "automata/kernels/meeting.py",
        "ways[1, s, w] |= twice[a, w] | (ways[0, s, w] & once[a, w])",
        "ways[1, s, w] |= twice[a, w]",
        _BLOCKS,
    ),
    Mutant(
        "choices between edges of different labels are taken for none",
        "automata/kernels/meeting.py",
        "several[s, w] |= twice[a, w] | (any_way[s, w] & once[a, w])",
        "several[s, w] |= twice[a, w]",
        _UNFOLDING,
    ),
    Mutant(
        "a list that must contain something may have too few items",
        "constraints/json_schema/arrays.py",
        "spec.least <= max(fewest, default=-1)",
        "spec.contains != ()",
        _LISTS,
    ),
    Mutant(
        "a counted repeat may end one too late",
        "automata/expressions/chains.py",
        "closing = joints[self.least :]",
        "closing = joints[self.least + 1 :]",
        _CHAINS,
    ),
    Mutant(
        "a repeat without an end ends",
        "automata/expressions/chains.py",
        "(body.source == start) & (self.most is None)",
        "(body.source == start) & (self.most is not None)",
        _CHAINS,
    ),
    Mutant(
        "padding allows no end after an accepting state",
        "automata/padding.py",
        "for state in [*np.flatnonzero(fa.accepting_mask).tolist(), end]:\n        for token",
        "for state in [end]:\n        for token",
        _TARGETS,
    ),
    Mutant(
        "padding keeps text after EOS",
        "automata/padding.py",
        "        and not takes_text[over[fa.source]].any()\n",
        "",
        _TARGETS,
    ),
    Mutant(
        "the complement accepts the same",
        "automata/products.py",
        "accepting=np.append(~graph.accepting, True),",
        "accepting=np.append(graph.accepting, True),",
        _ALGEBRA,
    ),
    Mutant(
        "an intersection accepts where one automaton does",
        "automata/products.py",
        "        & right.accepting[codes % right.num_states],",
        "        | right.accepting[codes % right.num_states],",
        _ALGEBRA,
    ),
    Mutant(
        "one repetition too few",
        "automata/algebra.py",
        "moves.append(_moves(between[least:], end))",
        "moves.append(_moves(between[least + 1 :], end))",
        _ALGEBRA,
    ),
    Mutant(
        "any number of repetitions is not any number",
        "automata/algebra.py",
        "moves.append(_moves(end, between[-2]))",
        "pass",
        _ALGEBRA,
    ),
    Mutant(
        "ambiguity is not noticed",
        "automata/ambiguity.py",
        "return bool(np.all(useful // fa.num_states == useful % fa.num_states))",
        "return bool(np.all(useful >= 0))",
        _AUTOMATON,
    ),
    Mutant(
        "a word is read along any edge",
        "automata/running.py",
        "edges[self._label_class[self._index.label[edges], token_class]]",
        "edges",
        _AUTOMATON,
    ),
    # -- hmm --------------------------------------------------------------------------------------
    Mutant(
        "absorbing states do not absorb",
        "hmm/absorbing.py",
        "return torch.cat([weights[..., kept] * going_on[kept], weights @ ending], -1)",
        "return torch.cat([weights[..., kept], weights @ ending], -1)",
        _COPYING,
    ),
    Mutant(
        "what is copied is added, not mixed in",
        "hmm/copying.py",
        "result = emission * (1 - rates)",
        "result = emission.clone()",
        _COPYING,
    ),
    Mutant(
        "ended texts go on copying",
        "hmm/model.py",
        "Copying(rates.masked_fill(self.ended, 0), weights)",
        "self.copying",
        _COPYING,
    ),
    Mutant(
        "rows of emissions are not checked",
        "hmm/model.py",
        "if _worst_sum(self.emission) <= _TOLERANCE:",
        "if _worst_sum(self.emission) < 0:",
        _HMM,
    ),
    Mutant(
        "counts without the last step",
        "hmm/walks.py",
        "self.steps.add_counts(into, self.filtered[:-1], self.predicted[1:])",
        "self.steps.add_counts(into, self.filtered[:-2], self.predicted[1:-1])",
        _WALKS,
    ),
    Mutant(
        "posteriors are the filtered messages",
        "hmm/walks.py",
        "            posterior[t - 1].mul_(self.filtered[t - 1])\n",
        "            posterior[t - 1].copy_(self.filtered[t - 1])\n",
        _WALKS,
    ),
    Mutant(
        "a shared prefix that no attention has seen is believed",
        "lm/shared_prefix.py",
        "return any(not layer.prefix.claimed for layer in past.layers)",
        "return False",
        _SHARED_PREFIX,
    ),
    Mutant(
        "rows attend to their own tokens only",
        "lm/shared_prefix.py",
        "return (result + weights[..., common:] @ value).reshape(rows, 1, heads, -1)",
        "return (weights[..., common:] @ value).reshape(rows, 1, heads, -1)",
        _SHARED_PREFIX,
    ),
    Mutant(
        "one unusual follower is a trap",
        "decoding/spelling.py",
        "found = bool(followers) and not any(",
        "found = bool(followers) and not all(",
        _SPELLING,
    ),
    Mutant(
        "trapped tokens are preferred",
        "decoding/spelling.py",
        "trapped.to(weights.dtype).mul(-self.cost)",
        "trapped.to(weights.dtype).mul(self.cost)",
        _SPELLING,
    ),
    Mutant(
        "a token is judged by the states before it",
        "decoding/spelling.py",
        "trapped = known[key] = self.is_trapped(track.advance(token))",
        "trapped = known[key] = self.is_trapped(track)",
        _SPELLING,
    ),
    Mutant(
        "the end of a text is no follower",
        "engine/live_sets.py",
        "found = [graph.token_order[first[c] : first[c + 1]] for c in used.tolist()]",
        "found = [graph.token_order[first[c] : first[c + 1]] for c in used.tolist()[:-1]]",
        _SPELLING,
    ),
    Mutant(
        "an HMM given a prompt is that of a model before it changed",
        "hmm/model.py",
        "key = (tokens, *(tensor._version for tensor in tensors)) if is_kept else None",
        "key = (tokens,) if is_kept else None",
        _COPYING,
    ),
    Mutant(
        "an HMM given a prompt is shared where it is differentiated",
        "hmm/model.py",
        "is_kept = not any(tensor.requires_grad or tensor.is_inference() for tensor in tensors)",
        "is_kept = True",
        _COPYING,
    ),
    Mutant(
        "the HMMs of a batch are forgotten between its rows",
        "experiments/harness/generating.py",
        "informed[id(batch), id(guide)] = [guide.given(item.prompt) for item in batch]",
        "informed[id(batch), id(guide)] = []",
        _SHARING,
    ),
    Mutant(
        "fewer examples replace more",
        "experiments/harness/journal.py",
        "grows = limit <= larger and",
        "grows =",
        ("tests/experiments/test_harness.py",),
    ),
    Mutant(
        "other numbers of particles replace those of a run",
        "experiments/harness/journal.py",
        "particles <= more and",
        "",
        ("tests/experiments/test_harness.py",),
    ),
    Mutant(
        "TruncProof is not given the budget",
        "experiments/budget.py",
        "_GIVEN_THE_BUDGET = (LIMITED, TRUNCPROOF)",
        "_GIVEN_THE_BUDGET = (LIMITED,)",
        _PEERS,
    ),
)
