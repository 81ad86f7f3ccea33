"""Mistakes that the tests must notice: ``make mutants``."""
