"""Compiled loops over the arrays of automata. Nothing here knows about classes or errors.

Conventions: states, edges, labels and classes are numbered from zero, in int64. A set of classes
is a row of 64-bit words (int64). Edges that are sorted by source come with ``offsets``, (S + 1,):
those of state s are ``offsets[s]`` to ``offsets[s + 1]``.
"""
