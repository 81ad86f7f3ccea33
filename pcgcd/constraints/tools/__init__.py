"""Calls of functions."""

from pcgcd.constraints.tools.calls import Call, openai_tools
from pcgcd.constraints.tools.function_call import function_call

__all__ = ["Call", "function_call", "openai_tools"]
