"""Distillation: from a language model to an HMM that guides it."""
