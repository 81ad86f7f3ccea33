"""SQLite's SELECT over the tables of a database."""

from pcgcd.constraints.sql.language import sql

__all__ = ["sql"]
