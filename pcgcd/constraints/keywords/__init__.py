"""Texts in which given words occur."""

from pcgcd.constraints.keywords.keywords import keywords

__all__ = ["keywords"]
