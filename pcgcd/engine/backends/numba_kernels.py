"""Compiled loops over H-vectors. Sums may be reordered, so that they are done many at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from pcgcd.automata.kernels.jit import compiled, in_place

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums in any order, and multiply-adds in one step; zero, infinity and NaN keep their meaning.
_FREEDOM = {"reassoc", "contract"}


def vectorised(function: Function) -> Function:
    """Compile a loop."""
    return compiled(function, fastmath=_FREEDOM)


def part(function: Function) -> Function:
    """Compile what only these loops call."""
    return in_place(function, fastmath=_FREEDOM)


@vectorised
def class_sums(rows: Any, order: Any, first: Any, out: Any) -> None:
    """Rows summed over each class of tokens, in float64."""
    for c in range(len(first) - 1):
        total = out[c]
        for i in range(first[c], first[c + 1]):
            row = rows[order[i]]
            for z in range(len(total)):
                total[z] += np.float64(row[z])


@vectorised
def accumulate(
    left: Any, left_index: Any, right: Any, right_index: Any, weight: Any, first: Any, out: Any
) -> None:
    """Weighted products of rows, summed over the edges of each group."""
    for g in range(len(first) - 1):
        total = out[g]
        for e in range(first[g], first[g + 1]):
            a, b, w = left[left_index[e]], right[right_index[e]], weight[e]
            for z in range(len(total)):
                total[z] += w * a[z] * b[z]


@part
def _three_by_four(
    rows: Any, at: Any, low: Any, high: Any, m0: Any, m1: Any, m2: Any, m3: Any
) -> Any:
    """The products of three tokens with four messages over a span of states: twelve sums."""
    b0, b1, b2 = rows[at, low:high], rows[at + 1, low:high], rows[at + 2, low:high]
    a00 = a01 = a02 = a03 = a10 = a11 = a12 = a13 = a20 = a21 = a22 = a23 = np.float32(0)
    for z in range(len(m0)):
        x0, x1, x2 = b0[z], b1[z], b2[z]
        y0 = m0[z]
        a00 += x0 * y0
        a10 += x1 * y0
        a20 += x2 * y0
        y1 = m1[z]
        a01 += x0 * y1
        a11 += x1 * y1
        a21 += x2 * y1
        y2 = m2[z]
        a02 += x0 * y2
        a12 += x1 * y2
        a22 += x2 * y2
        y3 = m3[z]
        a03 += x0 * y3
        a13 += x1 * y3
        a23 += x2 * y3
    return (a00, a01, a02, a03), (a10, a11, a12, a13), (a20, a21, a22, a23)


@part
def _four_by_four(
    rows: Any, at: Any, low: Any, high: Any, m0: Any, m1: Any, m2: Any, m3: Any
) -> Any:
    """The products of four tokens with four messages: the above, and four more."""
    b0, b1 = rows[at, low:high], rows[at + 1, low:high]
    b2, b3 = rows[at + 2, low:high], rows[at + 3, low:high]
    zero = np.float32(0)
    a00 = a01 = a02 = a03 = a10 = a11 = a12 = a13 = zero
    a20 = a21 = a22 = a23 = a30 = a31 = a32 = a33 = zero
    for z in range(len(m0)):
        x0, x1, x2, x3 = b0[z], b1[z], b2[z], b3[z]
        y0, y1, y2, y3 = m0[z], m1[z], m2[z], m3[z]
        a00 += x0 * y0
        a01 += x0 * y1
        a02 += x0 * y2
        a03 += x0 * y3
        a10 += x1 * y0
        a11 += x1 * y1
        a12 += x1 * y2
        a13 += x1 * y3
        a20 += x2 * y0
        a21 += x2 * y1
        a22 += x2 * y2
        a23 += x2 * y3
        a30 += x3 * y0
        a31 += x3 * y1
        a32 += x3 * y2
        a33 += x3 * y3
    return (
        (a00, a01, a02, a03),
        (a10, a11, a12, a13),
        (a20, a21, a22, a23),
        (a30, a31, a32, a33),
    )


# The sums of a tile have to fit in the vector registers: 16 with AVX2, 32 with AVX-512 or NEON.
TOKENS = 3 if torch.backends.cpu.get_cpu_capability() == "AVX2" else 4
_products = _three_by_four if TOKENS == 3 else _four_by_four


@part
def _one_by_four(b: Any, m0: Any, m1: Any, m2: Any, m3: Any) -> Any:
    a0 = a1 = a2 = a3 = np.float32(0)
    for z in range(len(b)):
        x = b[z]
        a0 += x * m0[z]
        a1 += x * m1[z]
        a2 += x * m2[z]
        a3 += x * m3[z]
    return a0, a1, a2, a3


@part
def _dot(b: Any, m: Any) -> Any:
    a = np.float32(0)
    for z in range(len(b)):
        a += b[z] * m[z]
    return a


@part
def _single(
    b: Any, at: Any, c: Any, low: Any, high: Any, messages: Any, group: Any, out: Any
) -> None:
    """One token over a span of states with the messages of all rows, added to the column."""
    row = 0
    while row < len(group):
        if row + 4 <= len(group):
            g0, g1, g2, g3 = group[row, c], group[row + 1, c], group[row + 2, c], group[row + 3, c]
            if g0 >= 0 and g1 >= 0 and g2 >= 0 and g3 >= 0:
                found = _one_by_four(
                    b,
                    messages[g0, low:high], messages[g1, low:high],
                    messages[g2, low:high], messages[g3, low:high],
                )  # fmt: skip
                for i in range(4):
                    out[row + i, at] += found[i]
                row += 4
                continue
        if group[row, c] >= 0:
            out[row, at] += _dot(b, messages[group[row, c], low:high])
        row += 1


@part
def _alike(group: Any, c: Any, d: Any) -> Any:
    """Whether two classes are allowed in the same of four rows, with the same messages."""
    alike = True
    for row in range(4):
        alike = alike and group[row, c] == group[row, d]
    return alike


@part
def _is_shared(group: Any, c: Any) -> Any:
    """Whether a class is allowed in several of four rows."""
    count = 0
    for row in range(4):
        if group[row, c] >= 0:
            count += 1
    return count > 1


@part
def _leader(group: Any, classes: Any) -> Any:
    """The class that most tokens of a tile are like, in four rows; -1 if all differ."""
    best, most = -1, 1
    for t in range(TOKENS - 1):
        count = 0
        for other in range(TOKENS):
            if _alike(group, classes[t], classes[other]):
                count += 1
        if count > most and _is_shared(group, classes[t]):
            best, most = classes[t], count
    return best


@part
def _followers(group: Any, classes: Any) -> Any:
    """The leader, and as lower bits the tokens that are like it; 0 if all differ."""
    leader = _leader(group, classes)
    if leader < 0:
        return 0
    code = leader << TOKENS
    for t in range(TOKENS):
        if _alike(group, leader, classes[t]):
            code |= 1 << t
    return code


@part
def _tile(
    rows: Any, at: Any, token: Any, classes: Any, low: Any, high: Any, messages: Any, group: Any,
    code: Any, out: Any,
) -> None:  # fmt: skip
    """Neighbouring tokens, of which some are alike, with the messages of four rows."""
    if code != 0:
        leader = code >> TOKENS
        # What is computed for rows in which the leader is not allowed is not written.
        g0, g1 = max(group[0, leader], 0), max(group[1, leader], 0)
        g2, g3 = max(group[2, leader], 0), max(group[3, leader], 0)
        found = _products(
            rows, at, low, high,
            messages[g0, low:high], messages[g1, low:high],
            messages[g2, low:high], messages[g3, low:high],
        )  # fmt: skip
        for row in range(4):
            if group[row, leader] >= 0:
                for t in range(TOKENS):
                    if code >> t & 1:
                        out[row, token + t] += found[t][row]
    for t in range(TOKENS):
        if not code >> t & 1:
            b = rows[at + t, low:high]
            _single(b, token + t, classes[t], low, high, messages, group, out)


@part
def _block(
    rows: Any, at: Any, token: Any, classes: Any, low: Any, high: Any, messages: Any, group: Any,
    codes: Any, out: Any,
) -> None:  # fmt: skip
    """Neighbouring tokens, whose emissions begin at a row, with the messages of all rows."""
    own = classes[token : token + TOKENS]
    row = 0
    while row + 4 <= len(group):
        four, code = group[row : row + 4], codes[row // 4]
        _tile(rows, at, token, own, low, high, messages, four, code, out[row : row + 4])
        row += 4
    if row < len(group):
        for t in range(TOKENS):
            b = rows[at + t, low:high]
            _single(b, token + t, own[t], low, high, messages, group[row:], out[row:])


@part
def _is_used(group: Any, c: Any) -> Any:
    used = False
    for row in range(len(group)):
        used = used or group[row, c] >= 0
    return used


@part
def _begin(start: Any, end: Any, classes: Any, group: Any, codes: Any, out: Any) -> None:
    """Scores are sums where tokens are allowed; note which tokens of the tiles are alike."""
    for v in range(start, end):
        for row in range(len(group)):
            if group[row, classes[v]] >= 0:
                out[row, v] = 0
    for v in range(start, end - TOKENS + 1, TOKENS):
        for row in range(0, len(group) - 3, 4):
            own = classes[v : v + TOKENS]
            codes[v - start, row // 4] = _followers(group[row : row + 4], own)


# What is used together has to fit in the caches: so many tokens, over so many hidden states.
_STRIP = 48
_SPAN = 4096


@vectorised
def all_scores(rows: Any, messages: Any, classes: Any, group: Any, out: Any) -> None:
    """Columns are the whole vocabulary: tokens in order, since memory is fastest so.

    Each emission is read once for all prefixes; see :class:`Backend`.
    """
    vocab_size, num_hidden = rows.shape
    codes = np.empty((_STRIP, len(group) // 4), dtype=np.int64)
    for strip in range(0, vocab_size, _STRIP):
        end = min(strip + _STRIP, vocab_size)
        _begin(strip, end, classes, group, codes, out)
        for low in range(0, num_hidden, _SPAN):
            high = min(low + _SPAN, num_hidden)
            v = strip
            while v < end:
                if len(group) >= 4 and v + TOKENS <= end:
                    _block(rows, v, v, classes, low, high, messages, group, codes[v - strip], out)
                    v += TOKENS
                else:
                    b = rows[v, low:high]
                    _single(b, v, classes[v], low, high, messages, group, out)
                    v += 1


@part
def _widen(bits: Any, out: Any) -> None:
    """The bits of bfloat16 are the upper half of those of a float32."""
    for z in range(len(bits)):
        out[z] = np.int32(bits[z]) << 16


@vectorised
def all_scores_bfloat16(rows: Any, messages: Any, classes: Any, group: Any, out: Any) -> None:
    """The same with the bits of bfloat16."""
    vocab_size, num_hidden = rows.shape
    bits = np.empty((TOKENS, num_hidden), dtype=np.int32)
    wide = bits.view(np.float32)
    codes = np.empty((_STRIP, len(group) // 4), dtype=np.int64)
    for strip in range(0, vocab_size, _STRIP):
        end = min(strip + _STRIP, vocab_size)
        _begin(strip, end, classes, group, codes, out)
        for low in range(0, num_hidden, _SPAN):
            high = min(low + _SPAN, num_hidden)
            v = strip
            while v < end:
                if len(group) >= 4 and v + TOKENS <= end:
                    for t in range(TOKENS):
                        if _is_used(group, classes[v + t]):
                            _widen(rows[v + t, low:high], bits[t, low:high])
                    _block(wide, 0, v, classes, low, high, messages, group, codes[v - strip], out)
                    v += TOKENS
                else:
                    if _is_used(group, classes[v]):
                        _widen(rows[v, low:high], bits[0, low:high])
                        b = wide[0, low:high]
                        _single(b, v, classes[v], low, high, messages, group, out)
                    v += 1


@part
def _listed(b: Any, place: Any, c: Any, messages: Any, group: Any, column: Any, out: Any) -> None:
    """One token, at its place in its class, with the messages of all rows."""
    for row in range(len(group)):
        if group[row, c] >= 0:
            out[row, column[row, c] + place] = _dot(b, messages[group[row, c]])


@vectorised
def listed_scores(
    rows: Any, messages: Any, order: Any, first: Any, group: Any, column: Any, out: Any
) -> None:
    """Columns are the allowed tokens of each row, class by class."""
    for c in range(len(first) - 1):
        if _is_used(group, c):
            for i in range(first[c], first[c + 1]):
                _listed(rows[order[i]], i - first[c], c, messages, group, column, out)


@vectorised
def listed_scores_bfloat16(
    rows: Any, messages: Any, order: Any, first: Any, group: Any, column: Any, out: Any
) -> None:
    """The same with the bits of bfloat16."""
    bits = np.empty(rows.shape[1], dtype=np.int32)
    wide = bits.view(np.float32)
    for c in range(len(first) - 1):
        if _is_used(group, c):
            for i in range(first[c], first[c + 1]):
                _widen(rows[order[i]], bits)
                _listed(wide, i - first[c], c, messages, group, column, out)
