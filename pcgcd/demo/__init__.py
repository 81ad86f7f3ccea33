"""Demos: with a language model (``generation``), and small enough to be exact (``exact``)."""
