"""Texts in which given words occur."""

from __future__ import annotations

from pcgcd.constraints.keywords.keywords import keywords

__all__ = ["keywords"]
