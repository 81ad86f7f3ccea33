"""What became of each particle: a record of a run from which it can be played again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pcgcd.decoding.smc import Step


class Move(NamedTuple):
    """One step of one task's particles: all of them draw a token, then they may be resampled.

    Attributes:
        tokens: The token that each particle drew; None where the text had ended or died before.
        log_weights: Their log-weights after the token, before resampling.
        ancestors: The particle that each one is a copy of after resampling; None if there was none.
    """

    tokens: tuple[int | None, ...]
    log_weights: tuple[float, ...]
    ancestors: tuple[int, ...] | None

    @property
    def parents(self) -> tuple[int, ...]:
        """The ancestors; without resampling each particle is its own."""
        return tuple(range(len(self.tokens))) if self.ancestors is None else self.ancestors


@dataclass(frozen=True)
class Genealogy:
    """The steps of a run, in order.

    >>> first = Move((4, 5), (-1.0, -9.0), ancestors=(0, 0))
    >>> run = Genealogy((first, Move((6, 7), (-0.5, -0.7), None)))
    >>> run.token_ids()
    ((4, 6), (4, 7))
    """

    moves: tuple[Move, ...]

    @classmethod
    def of_task(cls, steps: Sequence[Step], task: int) -> Genealogy:
        """What the steps of a run say about one of its tasks."""
        return cls(tuple(_moves(steps, task)))

    @property
    def num_steps(self) -> int:
        """How many tokens the longest text has."""
        return len(self.moves)

    @property
    def num_particles(self) -> int:
        """How many particles there are; 0 for a record of nothing."""
        return len(self.moves[0].tokens) if self.moves else 0

    def token_ids(self) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of each particle at the end."""
        texts: list[tuple[int, ...]] = [()] * self.num_particles
        for move in self.moves:
            drawn = [
                text if token is None else (*text, token)
                for text, token in zip(texts, move.tokens, strict=True)
            ]
            texts = [drawn[parent] for parent in move.parents]
        return tuple(texts)

    def log_weights(self) -> tuple[float, ...]:
        """Return the log-weight of each particle at the end, since the last resampling."""
        if not self.moves:
            return ()
        last = self.moves[-1]
        return last.log_weights if last.ancestors is None else (0.0,) * self.num_particles

    def lineage(self, particle: int) -> tuple[int, ...]:
        """Return the place that the text of a final particle had at each step, in order."""
        places = []
        for move in reversed(self.moves):
            particle = move.parents[particle]
            places.append(particle)
        return tuple(reversed(places))

    @cached_property
    def survivors(self) -> tuple[frozenset[int], ...]:
        """At each step, the particles from which some final particle descends."""
        alive = frozenset(range(self.num_particles))
        result = []
        for move in reversed(self.moves):
            alive = frozenset(move.parents[particle] for particle in alive)
            result.append(alive)
        return tuple(reversed(result))


def _moves(steps: Sequence[Step], task: int) -> Iterator[Move]:
    for step in steps:
        members = step.population.members(task)
        place = {particle: i for i, particle in enumerate(members)}
        log_weights = tuple(step.log_weights[i] for i in members)
        ancestors = None
        if step.ancestors is not None:
            ancestors = tuple(place[step.ancestors[i]] for i in members)
            # Of several tasks, some may have been left as they were.
            kept = tuple(step.population.log_weights[members].tolist()) == log_weights
            if kept and ancestors == tuple(range(len(members))):
                ancestors = None
        yield Move(tuple(step.drawn[i] for i in members), log_weights, ancestors)
