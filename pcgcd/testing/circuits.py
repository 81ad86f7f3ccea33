"""The laws of circuits, to be inherited by the tests of each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
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
from pcgcd.testing.worlds import World, all_strings, enumerate_values, partial_strings

__all__ = ["CircuitLaws"]

_MOST_PAIRS = 2000
_MOST_PATHS = 5000


class CircuitLaws:
    """What every circuit must answer, compared with sums over all strings of a small world.

    Inherit from it in a test class whose name starts with ``Test``, and say how the circuit is
    created; pytest does the rest. Without pytest, use :func:`run_laws`.

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

    # -- to be implemented --------------------------------------------------------------------

    def create_circuit(self) -> CircuitLike:
        """A circuit over a few tokens that gives some string of the length a positive value."""
        raise NotImplementedError("return the circuit to be tested")

    def reference_log_value(self, strings: Tensor) -> Tensor | None:
        """The logarithms of the values (batch,), found in another way; None if there is none."""
        return None

    # -- values -------------------------------------------------------------------------------

    def test_value_equals_the_reference(self) -> None:
        """``log_value`` is what :meth:`reference_log_value` says, where it says something."""
        world = self._world()
        expected = self.reference_log_value(world.strings)
        if expected is not None:
            self._compare(world.log_values, expected.double(), "log_value")

    def test_values_agree_in_every_semiring(self) -> None:
        """``value`` is one number, whether plain, scaled, or in logarithms."""
        circuit, world = self._circuit(), self._world()
        kinds: tuple[Semiring[Any], ...] = (LINEAR, REAL, LOG)
        for semiring in kinds:
            numbers = semiring.with_dtype(self._dtype())
            value = numbers.to_log(circuit.value(world.strings, semiring))
            self._compare(value, world.log_values, f"the value in {semiring}")

    def test_boolean_value_is_the_support(self) -> None:
        """In the boolean semiring the value says whether it is positive, exactly."""
        circuit, world = self._circuit(), self._world()
        found = circuit.value(world.strings, BOOLEAN)
        assert torch.equal(found, world.support), "the boolean value is not the support"
        some = circuit.value(self._evidence(), BOOLEAN)
        expected = world.is_possible(self._evidence())
        assert torch.equal(some, expected), "with missing tokens, the boolean value is wrong"

    def test_counts_are_exact(self) -> None:
        """In the counting semiring the value is exact, where all weights are whole numbers."""
        circuit, world = self._circuit(), self._world()
        try:
            counts = circuit.value(world.strings, COUNTING)
        except StructuralPropertyError:
            return
        expected = world.log_values.exp().round().long().tolist()
        assert counts.tolist() == expected, "the counts are not the values"

    def test_partition_is_the_sum_of_the_values(self) -> None:
        """``log_partition = log sum_x value(x)``, in every semiring."""
        circuit, world = self._circuit(), self._world()
        self._compare(circuit.log_partition(self.length), world.log_partition, "log_partition")
        kinds: tuple[Semiring[Any], ...] = (LINEAR, REAL, LOG)
        for semiring in kinds:
            numbers = semiring.with_dtype(self._dtype())
            found = numbers.to_log(circuit.partition(self.length, semiring))
            self._compare(found, world.log_partition.reshape(1), f"the partition in {semiring}")

    def test_probabilities_sum_to_one(self) -> None:
        """``log_prob`` is the value over the partition function; the sum over all strings is 1."""
        world = self._world()
        found = self._log_prob(world.strings).double()
        self._compare(found, world.log_prob, "log_prob")
        self._compare(found.exp().sum(), torch.ones((), dtype=torch.float64), "the sum of all")

    def test_another_type_keeps_the_values(self) -> None:
        """``to(dtype=float64)`` is the same function, at least as precise."""
        circuit, world = self._circuit(), self._world()
        moved = circuit.to(dtype=torch.float64)
        self._compare(moved.log_value(world.strings), world.log_values, "in float64, log_value")

    # -- marginals and conditionals -----------------------------------------------------------

    def test_marginals_of_all_partial_strings(self) -> None:
        """``log_marginal`` sums out missing tokens, whichever they are."""
        circuit, world = self._circuit(), self._world()
        for evidence in self._batches_of_evidence():
            found = circuit.log_marginal(evidence)
            self._compare(found, world.log_marginal(evidence), "log_marginal")

    def test_tokens_past_the_end_are_missing(self) -> None:
        """A shorter string with the length named is one whose last tokens are missing."""
        circuit, world = self._circuit(), self._world()
        for prefix in self._prefixes():
            found = circuit.log_marginal(prefix, length=self.length)
            self._compare(found, world.log_marginal(prefix), "log_marginal of prefixes")

    def test_a_circuit_of_one_length_uses_its_own(self) -> None:
        """A prefix needs no length where there is only one: the rest is missing."""
        circuit, world = self._circuit(), self._world()
        if not isinstance(circuit, Circuit):
            return
        for prefix in self._prefixes():
            self._compare(circuit.log_marginal(prefix), world.log_marginal(prefix), "log_marginal")
            prefix = prefix[world.is_possible(prefix)]
            found = circuit.next_token_log_probs(prefix)
            self._compare(found, world.next_token_log_probs(prefix), "next_token_log_probs")
            padded = torch.nn.functional.pad(
                prefix, (0, self.length - prefix.shape[1]), value=MISSING
            )
            expected = world.token_marginals(padded)
            self._compare(circuit.token_marginals(prefix), expected, "token_marginals")
            counts = circuit.expected_token_counts(prefix)
            self._compare(counts, expected.sum(1), "expected_token_counts")
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
        circuit, world = self._circuit(), self._world()
        partial, possible = self._evidence(), self._possible_evidence()
        generator = torch.Generator().manual_seed(0)
        pairs = torch.randperm(len(partial) * len(possible), generator=generator)[:_MOST_PAIRS]
        x = partial[pairs // len(possible)]
        evidence = possible[pairs % len(possible)]
        found = circuit.log_conditional(x, evidence)
        self._compare(found, world.log_conditional(x, evidence), "log_conditional")

    def test_next_tokens_after_all_prefixes(self) -> None:
        """``next_token_log_probs`` is a distribution, and the right one, after any prefix."""
        circuit, world = self._circuit(), self._world()
        for prefix in self._prefixes():
            prefix = prefix[world.is_possible(prefix)]
            found = circuit.next_token_log_probs(prefix, length=self.length).double()
            total = found.exp().sum(-1)
            self._compare(total, torch.ones_like(total), "the sum over the next token")
            expected = world.next_token_log_probs(prefix)
            self._compare(found, expected, f"next_token_log_probs after {prefix.shape[1]} tokens")

    def test_token_marginals_given_all_evidence(self) -> None:
        """``token_marginals`` and their sums, the expected counts, given any evidence."""
        circuit, world = self._circuit(), self._world()
        for evidence in self._batches_of_evidence():
            evidence = evidence[world.is_possible(evidence)]
            if not len(evidence):
                continue
            found = circuit.token_marginals(evidence)
            self._compare(found, world.token_marginals(evidence), "token_marginals")
            counts = circuit.expected_token_counts(evidence)
            expected = world.expected_token_counts(evidence)
            self._compare(counts, expected, "expected_token_counts")

    def test_unit_posteriors_sum_to_one(self) -> None:
        """``unit_posteriors`` are distributions; of a chain, those of its hidden paths."""
        circuit, evidence = self._circuit(), self._possible_evidence()
        posteriors = circuit.unit_posteriors(evidence)
        assert len(posteriors) == self.length, f"found {len(posteriors)} variables"
        for posterior in posteriors:
            total = posterior.double().sum(-1)
            self._compare(total, torch.ones_like(total), "the sum of a unit posterior")
        if isinstance(circuit, Chain) and self._has_few_paths(circuit):
            found = torch.stack(posteriors, dim=1)
            expected = brute_force_unit_posteriors(circuit, evidence)
            self._compare(found, expected, "unit_posteriors")

    def test_impossible_evidence_is_refused(self) -> None:
        """Nothing is conditioned on evidence of probability zero: the error says so."""
        circuit, world = self._circuit(), self._world()
        evidence = self._evidence()
        impossible = evidence[~world.is_possible(evidence)][:1]
        if not len(impossible):
            return
        questions: tuple[Callable[[Tensor], Any], ...] = (
            lambda e: circuit.log_conditional(torch.full_like(e, MISSING), e),
            circuit.token_marginals,
            circuit.expected_token_counts,
            circuit.unit_posteriors,
            circuit.best_path,
            lambda e: circuit.sample(1, evidence=e),
        )
        self._require_refusal(questions, impossible)
        for prefix in self._prefixes():
            impossible = prefix[~world.is_possible(prefix)][:1]
            if len(impossible):
                self._require_refusal([self._next_token], impossible)

    def _next_token(self, prefix: Tensor) -> Tensor:
        return self._circuit().next_token_log_probs(prefix, length=self.length)

    def _require_refusal(
        self, questions: Sequence[Callable[[Tensor], Any]], impossible: Tensor
    ) -> None:
        for question in questions:
            try:
                question(impossible)
            except ImpossibleEvidenceError:
                continue
            raise AssertionError(f"{impossible.tolist()} is impossible, but was conditioned on")

    # -- samples and best paths ---------------------------------------------------------------

    def test_samples_follow_the_distribution(self) -> None:
        """Samples pass a chi-square test, and no string of probability zero is drawn."""
        circuit, world = self._circuit(), self._world()
        generator = torch.Generator().manual_seed(0)
        samples = circuit.sample(self.num_samples, self.length, generator=generator)
        self._compare_samples(samples, world.log_prob.exp())

    def test_samples_given_evidence_follow_the_conditional(self) -> None:
        """Samples keep the evidence, and the rest follows the distribution given it."""
        circuit, world = self._circuit(), self._world()
        possible = self._possible_evidence()
        some = possible[(possible == MISSING).any(-1)][1::5][:4]
        generator = torch.Generator().manual_seed(0)
        number = self.num_samples // 2
        for row, samples in zip(some, circuit.sample(number, evidence=some, generator=generator)):
            log_prob = world.log_values - world.log_mass(row.unsqueeze(0))
            self._compare_samples(samples, log_prob.exp() * world.agrees(row.unsqueeze(0))[0])

    def test_best_path_is_a_path(self) -> None:
        """A best path keeps the evidence, is possible, and weighs no more than its string.

        Its weight is the value in the maximum semiring; of a chain, that of the heaviest path.
        """
        circuit, world = self._circuit(), self._world()
        evidence = self._possible_evidence()
        tokens, _, log_weight = circuit.best_path(evidence)
        kept = (tokens == evidence) | (evidence == MISSING)
        assert bool(kept.all()), "a best path contradicts the evidence"
        log_value = world.log_values[world.index(tokens)]
        assert bool(torch.isfinite(log_value).all()), "a best path spells an impossible string"
        excess = (log_weight.double() - log_value).max()
        assert float(excess) <= self._tolerance(), f"a best path is heavier by {float(excess):g}"
        maximum = circuit.value(evidence, MAXIMUM)
        self._compare(log_weight, maximum.double(), "the weight of a best path")
        if isinstance(circuit, Chain) and self._has_few_paths(circuit):
            expected = brute_force_best_path(circuit, evidence)
            self._compare(log_weight, expected.log_weight, "the weight of a best path")

    # -- what the laws are checked on ---------------------------------------------------------

    def _circuit(self) -> CircuitLike:
        return self.create_circuit()

    def _world(self) -> World:
        world = enumerate_values(self._circuit(), self.length)
        assert bool(world.support.any()), "the circuit gives no string of this length any weight"
        return world

    def _dtype(self) -> torch.dtype:
        return self._circuit().unroll(self.length).dtype

    def _tolerance(self) -> float:
        return 2e-5 if torch.finfo(self._dtype()).eps > 1e-10 else 1e-9

    def _evidence(self) -> Tensor:
        """All partial strings."""
        graph = self._circuit().unroll(self.length)
        return partial_strings(graph.vocab_size, self.length).to(graph.device)

    def _possible_evidence(self) -> Tensor:
        evidence = self._evidence()
        return evidence[self._world().is_possible(evidence)]

    def _batches_of_evidence(self) -> Iterator[Tensor]:
        """All partial strings in one batch; then those with the same tokens missing together."""
        evidence = self._evidence()
        yield evidence
        for pattern in all_strings(2, self.length).bool().to(evidence.device):
            yield evidence[((evidence == MISSING) == pattern).all(-1)]

    def _prefixes(self) -> Iterator[Tensor]:
        graph = self._circuit().unroll(self.length)
        for length in range(self.length):
            yield all_strings(graph.vocab_size, length).to(graph.device)

    def _has_few_paths(self, chain: Chain) -> bool:
        return bool(chain.num_units**self.length <= _MOST_PATHS)

    def _log_prob(self, strings: Tensor) -> Tensor:
        with warnings.catch_warnings():
            # That an ambiguous automaton weighs strings by paths is no concern of these laws.
            warnings.simplefilter("ignore", AmbiguousAutomatonWarning)
            return self._circuit().log_prob(strings)

    def _compare(self, actual: Tensor, expected: Tensor, what: str) -> None:
        tolerance = self._tolerance()
        torch.testing.assert_close(
            actual.detach().double(),
            expected.double(),
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text: f"{what}: {text}",
        )

    def _compare_samples(self, samples: Tensor, probability: Tensor) -> None:
        counts = self._world().index(samples).bincount(minlength=len(probability)).double()
        self._compare_counts(counts, probability)

    def _compare_counts(self, counts: Tensor, probability: Tensor) -> None:
        """A chi-square test at p = 1e-5; what is expected fewer than five times is pooled."""
        impossible = (counts > 0) & (probability == 0)
        assert not bool(impossible.any()), "something of probability zero was drawn"
        expected = probability * counts.sum()
        rare = expected < 5
        pooled_counts = torch.cat([counts[~rare], counts[rare].sum().reshape(1)])
        pooled = torch.cat([expected[~rare], expected[rare].sum().reshape(1)])
        used = pooled > 0
        statistic = ((pooled_counts - pooled)[used] ** 2 / pooled[used]).sum()
        freedom = (used.sum() - 1).clamp(min=1) / 2
        p_value = float(torch.special.gammaincc(freedom.double(), statistic / 2))
        assert p_value > 1e-5, f"samples do not follow the distribution (p = {p_value:.2g})"
