"""Counted repeats between two marks, such as strings of at most 500 characters.

The automaton is a chain of equal links, one for each time that the body may come. It is written
from the automaton of the body at once; the usual construction would place every link, and search
for sets of states and for equal ones where there are none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pcgcd.automata.automaton import FiniteAutomaton
from pcgcd.automata.expressions import Concatenation, Expression, Literal, Repeat
from pcgcd.automata.graphs import Graph, pack

_WORTH_IT = 16


class Chain(NamedTuple):
    """A body that is repeated between two bytes; ``most`` is None if there is no end."""

    before: int
    body: Expression
    least: int
    most: int | None
    after: int

    @classmethod
    def of(cls, expression: Expression) -> Chain | None:
        """What an expression repeats many times, or None if it is something else."""
        if not isinstance(expression, Concatenation) or len(expression.parts) != 3:
            return None
        before, middle, after = expression.parts
        if not isinstance(before, Literal) or not isinstance(after, Literal):
            return None
        if not isinstance(middle, Repeat) or len(before.text) != 1 or len(after.text) != 1:
            return None
        if middle.has_blocks or max(middle.least, middle.most or 0) < _WORTH_IT:
            return None
        return cls(before.text[0], middle.body, middle.least, middle.most, after.text[0])

    @property
    def num_links(self) -> int:
        """How many links there are; without an end the last one may come again."""
        return self.least if self.most is None else self.most

    def num_states(self, body: FiniteAutomaton) -> int:
        """How many states there are: the start, the links, the joint after them and the end."""
        return self.num_links * (body.num_states - 1) + 3

    def linked(self, body: FiniteAutomaton) -> Graph | None:
        """The minimal deterministic automaton, from that of the body.

        None if links would depend on each other: if a text of the body is empty or begins another
        one, or if one begins with the mark at the end.
        """
        start, final = np.flatnonzero(body.initial_mask), np.flatnonzero(body.accepting_mask)
        members = body.labels.label_class[:, body.labels.token_class]
        if (
            not body.is_deterministic
            or len(final) != 1
            or np.isin(final, body.source).any()
            or np.isin(start, [*body.target, *final]).any()
            or members[body.label[body.source == start], self.after].any()
        ):
            return None
        # A link is a joint, which is its state 0, and the inner states of a body; the next joint
        # follows after them.
        size = body.num_states - 1
        number = np.cumsum(~body.initial_mask & ~body.accepting_mask)
        number[start], number[final] = 0, size
        joints = 1 + size * np.arange(self.num_links + 1)
        source = number[body.source] + joints[:-1, None]
        target = number[body.target] + joints[:-1, None]
        again = np.flatnonzero((body.source == start) & (self.most is None))
        closing = joints[self.least :]
        end = self.num_states(body) - 1
        first, last = len(members), len(members) + 1
        edges = [
            ([0], [1], [first]),
            (source.ravel(), target.ravel(), np.tile(body.label, self.num_links)),
            (np.full(len(again), joints[-1]), target[-1, again], body.label[again]),
            (closing, np.full(len(closing), end), np.full(len(closing), last)),
        ]
        sources, targets, labels = map(np.concatenate, zip(*edges, strict=True))
        order = np.lexsort((targets, sources))
        marks = np.zeros((2, 256), dtype=np.bool_)
        marks[[0, 1], [self.before, self.after]] = True
        states = np.arange(end + 1)
        return Graph(
            end + 1,
            sources[order],
            targets[order],
            labels[order],
            pack(np.concatenate([members, marks])),
            256,
            np.arange(256),
            states == 0,
            states == end,
        ).classified()
