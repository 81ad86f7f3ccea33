"""Calls of functions."""

from pcgcd.constraints.tools.function_call import function_call

__all__ = ["function_call"]
