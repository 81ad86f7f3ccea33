"""The laws of circuits, to be inherited by the tests of each."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pcgcd.circuits import MISSING, Chain, Circuit, CircuitLike
from pcgcd.circuits.semirings import BOOLEAN, COUNTING, LINEAR, LOG, MAXIMUM, REAL, Semiring
from pcgcd.errors import (
    AmbiguousAutomatonWarning,
    ImpossibleEvidenceError,
    StructuralPropertyError,
)
from pcgcd.testing.paths import brute_force_best_path, brute_force_unit_posteriors
from pcgcd.testing.running import Laws, assert_close, assert_refused
from pcgcd.testing.worlds import World, all_strings, enumerate_values, partial_strings

REAL_VALUED: tuple[Semiring[Any], ...] = (LINEAR, REAL, LOG)
_MOST_PAIRS = 2000
_MOST_PATHS = 5000


class CircuitLaws(Laws):
    """What every circuit must answer, compared with sums over all strings of a small world.

    >>> from pcgcd import HMM
    >>> class TestHMM(CircuitLaws):
    ...     def create_circuit(self):
    ...         return HMM.random(2, 3, generator=torch.Generator().manual_seed(0))
    >>> TestHMM().test_probabilities_sum_to_one()

    Attributes:
        length: The length of the strings; of a circuit of one length, its own.
        num_samples: How many samples are compared with the distribution.
    """

    length: int = 3
    num_samples: int = 20_000

    def create_circuit(self) -> CircuitLike:
        """Return a circuit over a few tokens; some string of the length has a positive value."""
        raise NotImplementedError("return the circuit to be tested")

    def reference_log_value(self, strings: Tensor) -> Tensor | None:
        """Return the log-values (batch,), found in another way; None if there is none."""
        return None

    # -- values -------------------------------------------------------------------------------

    def test_value_follows_the_definition(self) -> None:
        """``log_value`` is what the parameters say: sums over paths, products, mixtures."""
        found = self._circuit.log_value(self._world.strings)
        self._compare(found, self._world.log_values, "log_value")

    def test_value_equals_the_reference(self) -> None:
        """``log_value`` is what :meth:`reference_log_value` says, where it says something."""
        expected = self.reference_log_value(self._world.strings)
        if expected is not None:
            self._compare(self._circuit.log_value(self._world.strings), expected, "log_value")

    def test_values_agree_in_every_semiring(self) -> None:
        """``value`` is one number, whether plain, scaled, or in logarithms."""
        for semiring in REAL_VALUED:
            value = self._circuit.value(self._world.strings, semiring)
            self._compare_in(semiring, value, self._world.log_values, "the value")

    def test_boolean_value_is_the_support(self) -> None:
        """In the boolean semiring the value says whether it is positive, exactly."""
        found = self._circuit.value(self._world.strings, BOOLEAN)
        assert torch.equal(found, self._world.support), "the boolean value is not the support"
        some = self._circuit.value(self._evidence, BOOLEAN)
        expected = self._world.is_possible(self._evidence)
        assert torch.equal(some, expected), "with missing tokens, the boolean value is wrong"

    def test_counts_are_exact(self) -> None:
        """In the counting semiring the value is exact, where all weights are whole numbers."""
        try:
            counts = self._circuit.value(self._world.strings, COUNTING)
        except StructuralPropertyError:
            return
        expected = self._world.log_values.exp().round().long().tolist()
        assert counts.tolist() == expected, "the counts are not the values"

    def test_partition_is_the_sum_of_the_values(self) -> None:
        """``log_partition = log sum_x value(x)``, in every semiring."""
        expected = self._world.log_partition
        self._compare(self._circuit.log_partition(self.length), expected, "log_partition")
        for semiring in REAL_VALUED:
            found = self._circuit.partition(self.length, semiring)
            self._compare_in(semiring, found, expected.reshape(1), "the partition")

    def test_probabilities_sum_to_one(self) -> None:
        """``log_prob`` is the value over the partition function; the sum over all strings is 1."""
        with warnings.catch_warnings():
            # That an ambiguous automaton weighs strings by paths is no concern of these laws.
            warnings.simplefilter("ignore", AmbiguousAutomatonWarning)
            found = self._circuit.log_prob(self._world.strings).double()
        self._compare(found, self._world.log_prob, "log_prob")
        self._compare_totals(found.exp(), "all probabilities")

    def test_another_type_keeps_the_values(self) -> None:
        """``to(dtype=float64)`` is the same function, at least as precise."""
        found = self._circuit.to(dtype=torch.float64).log_value(self._world.strings)
        self._compare(found, self._world.log_values, "in float64, log_value")

    # -- marginals and conditionals -----------------------------------------------------------

    def test_marginals_of_all_partial_strings(self) -> None:
        """``log_marginal`` sums out missing tokens, whichever they are."""
        for evidence in self._batches_of_evidence():
            self._check("log_marginal", evidence)

    def test_tokens_past_the_end_are_missing(self) -> None:
        """A shorter string with the length named is one whose last tokens are missing."""
        for prefix in self._prefixes():
            self._check("log_marginal", prefix, length=self.length)

    def test_a_circuit_of_one_length_uses_its_own(self) -> None:
        """A prefix needs no length where there is only one: the rest is missing."""
        circuit = self._circuit
        if not isinstance(circuit, Circuit):
            return
        for prefix in self._prefixes():
            self._check("log_marginal", prefix)
            prefix = self._possible(prefix)
            for query in ("next_token_log_probs", "token_marginals", "expected_token_counts"):
                self._check(query, prefix)
            padding = (0, self.length - prefix.shape[1])
            padded = torch.nn.functional.pad(prefix, padding, value=MISSING)
            for short, long in zip(
                circuit.unit_posteriors(prefix), circuit.unit_posteriors(padded)
            ):
                self._compare(short, long, "unit_posteriors")
            best = circuit.best_path(prefix)
            self._compare(best.log_weight, circuit.value(padded, MAXIMUM), "a best path")
            drawn = circuit.sample(2, evidence=prefix)
            assert drawn.shape == (len(prefix), 2, self.length), f"samples of {drawn.shape}"
            kept = drawn[:, :, : prefix.shape[1]] == prefix.unsqueeze(1)
            assert bool(kept.all()), "samples do not keep the prefix"

    def test_conditionals_of_pairs_of_partial_strings(self) -> None:
        """``log_conditional`` is the ratio of two sums; -inf where the strings contradict."""
        partial, possible = self._evidence, self._possible(self._evidence)
        generator = torch.Generator().manual_seed(0)
        pairs = torch.randperm(len(partial) * len(possible), generator=generator)[:_MOST_PAIRS]
        x, evidence = partial[pairs // len(possible)], possible[pairs % len(possible)]
        self._check("log_conditional", x, evidence)

    def test_next_tokens_after_all_prefixes(self) -> None:
        """``next_token_log_probs`` is a distribution, and the right one, after any prefix."""
        for prefix in map(self._possible, self._prefixes()):
            found = self._check("next_token_log_probs", prefix, length=self.length)
            self._compare_totals(found.double().exp(), "next tokens")

    def test_token_marginals_given_all_evidence(self) -> None:
        """``token_marginals`` and their sums, the expected counts, given any evidence."""
        for evidence in map(self._possible, self._batches_of_evidence()):
            if len(evidence):
                self._check("token_marginals", evidence)
                self._check("expected_token_counts", evidence)

    def test_unit_posteriors_sum_to_one(self) -> None:
        """``unit_posteriors`` are distributions; of a chain, those of its hidden paths."""
        evidence = self._possible(self._evidence)
        posteriors = self._circuit.unit_posteriors(evidence)
        assert len(posteriors) == self.length, f"found {len(posteriors)} variables"
        for posterior in posteriors:
            self._compare_totals(posterior.double(), "a unit posterior")
        for chain in self._chains_of_few_paths():
            expected = brute_force_unit_posteriors(chain, evidence)
            self._compare(torch.stack(posteriors, dim=1), expected, "unit_posteriors")

    def test_impossible_evidence_is_refused(self) -> None:
        """Nothing is conditioned on evidence of probability zero: the error says so."""
        circuit = self._circuit
        questions: tuple[Callable[[Tensor], object], ...] = (
            lambda e: circuit.log_conditional(torch.full_like(e, MISSING), e),
            circuit.token_marginals,
            circuit.expected_token_counts,
            circuit.unit_posteriors,
            circuit.best_path,
            lambda e: circuit.sample(1, evidence=e),
        )
        self._require_refusal(self._evidence, *questions)
        for prefix in self._prefixes():
            self._require_refusal(
                prefix, lambda e: circuit.next_token_log_probs(e, length=self.length)
            )

    def _require_refusal(self, evidence: Tensor, *questions: Callable[[Tensor], object]) -> None:
        """Every question refuses the first evidence that is impossible, if there is any."""
        impossible = evidence[~self._world.is_possible(evidence)][:1]
        if len(impossible):
            otherwise = f"{impossible.tolist()} is impossible, but was conditioned on"
            for question in questions:
                call = functools.partial(question, impossible)
                assert_refused(call, ImpossibleEvidenceError, otherwise)

    # -- samples and best paths ---------------------------------------------------------------

    def test_samples_follow_the_distribution(self) -> None:
        """Samples pass a chi-square test, and no string of probability zero is drawn."""
        generator = torch.Generator().manual_seed(0)
        samples = self._circuit.sample(self.num_samples, self.length, generator=generator)
        self._compare_samples(samples, self._world.log_prob.exp())

    def test_samples_given_evidence_follow_the_conditional(self) -> None:
        """Samples keep the evidence, and the rest follows the distribution given it."""
        world, possible = self._world, self._possible(self._evidence)
        some = possible[(possible == MISSING).any(-1)][1::5][:4]
        generator = torch.Generator().manual_seed(0)
        drawn = self._circuit.sample(self.num_samples // 2, evidence=some, generator=generator)
        for row, samples in zip(some.split(1), drawn):
            log_prob = world.log_values - world.log_mass(row)
            self._compare_samples(samples, log_prob.exp() * world.agrees(row)[0])

    def test_best_path_is_a_path(self) -> None:
        """A best path keeps the evidence, is possible, and weighs no more than its string.

        Its weight is the value in the maximum semiring; of a chain, that of the heaviest path.
        """
        evidence = self._possible(self._evidence)
        tokens, _, log_weight = self._circuit.best_path(evidence)
        kept = (tokens == evidence) | (evidence == MISSING)
        assert bool(kept.all()), "a best path contradicts the evidence"
        log_value = self._world.log_values[self._world.index(tokens)]
        assert bool(torch.isfinite(log_value).all()), "a best path spells an impossible string"
        excess = float((log_weight.double() - log_value).max())
        assert excess <= self._tolerance, f"a best path is heavier by {excess:g}"
        maximum = self._circuit.value(evidence, MAXIMUM)
        self._compare(log_weight, maximum, "the weight of a best path")
        for chain in self._chains_of_few_paths():
            expected = brute_force_best_path(chain, evidence).log_weight
            self._compare(log_weight, expected, "the weight of a best path")

    # -- what the laws are checked on ---------------------------------------------------------

    @functools.cached_property
    def _circuit(self) -> CircuitLike:
        return self.create_circuit()

    @functools.cached_property
    def _graph(self) -> Circuit:
        return self._circuit.unroll(self.length)

    @functools.cached_property
    def _world(self) -> World:
        world = enumerate_values(self._circuit, self.length)
        assert bool(world.support.any()), "the circuit gives no string of this length any weight"
        return world

    @functools.cached_property
    def _tolerance(self) -> float:
        return 2e-5 if torch.finfo(self._graph.dtype).eps > 1e-10 else 1e-9

    @functools.cached_property
    def _evidence(self) -> Tensor:
        """All partial strings."""
        return partial_strings(self._graph.vocab_size, self.length).to(self._graph.device)

    def _possible(self, evidence: Tensor) -> Tensor:
        return evidence[self._world.is_possible(evidence)]

    def _batches_of_evidence(self) -> Iterator[Tensor]:
        """All partial strings in one batch; then those with the same tokens missing together."""
        evidence = self._evidence
        yield evidence
        for pattern in all_strings(2, self.length).bool().to(evidence.device):
            yield evidence[((evidence == MISSING) == pattern).all(-1)]

    def _prefixes(self) -> Iterator[Tensor]:
        for length in range(self.length):
            yield all_strings(self._graph.vocab_size, length).to(self._graph.device)

    def _chains_of_few_paths(self) -> Iterator[Chain]:
        """The circuit, if all of its hidden paths can be tried."""
        chain = self._circuit
        if isinstance(chain, Chain) and chain.num_units**self.length <= _MOST_PATHS:
            yield chain

    def _check(self, query: str, *arguments: Tensor, **options: int) -> Tensor:
        """The circuit answers the query as the sum over all strings does."""
        found: Tensor = getattr(self._circuit, query)(*arguments, **options)
        self._compare(found, getattr(self._world, query)(*arguments), query)
        return found

    def _compare(self, actual: Tensor, expected: Tensor, what: str) -> None:
        assert_close(actual.detach().double(), expected.double(), what, self._tolerance)

    def _compare_in(self, semiring: Semiring[Any], x: Any, log: Tensor, what: str) -> None:
        numbers = semiring.with_dtype(self._graph.dtype)
        self._compare(numbers.to_log(x), log, f"{what} in {semiring}")

    def _compare_totals(self, probabilities: Tensor, what: str) -> None:
        total = probabilities.sum(-1)
        self._compare(total, torch.ones_like(total), f"the sum of {what}")

    def _compare_samples(self, samples: Tensor, probability: Tensor) -> None:
        counts = self._world.index(samples).bincount(minlength=len(probability))
        self._compare_counts(counts.double(), probability)

    def _compare_counts(self, counts: Tensor, probability: Tensor) -> None:
        """A chi-square test at p = 1e-5; what is expected fewer than five times is pooled."""
        impossible = (counts > 0) & (probability == 0)
        assert not bool(impossible.any()), "something of probability zero was drawn"
        expected = probability * counts.sum()
        rare = expected < 5
        found, expected = (
            torch.cat([numbers[~rare], numbers[rare].sum().reshape(1)])
            for numbers in (counts, expected)
        )
        used = expected > 0
        statistic = ((found - expected)[used] ** 2 / expected[used]).sum()
        freedom = (used.sum() - 1).clamp(min=1) / 2
        p_value = float(torch.special.gammaincc(freedom.double(), statistic / 2))
        assert p_value > 1e-5, f"samples do not follow the distribution (p = {p_value:.2g})"
