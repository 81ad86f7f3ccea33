"""SQLite's functions, by how many arguments they take."""

from __future__ import annotations

AGGREGATES = ("count", "sum", "avg", "min", "max", "total", "group_concat")
ONE_ARGUMENT = (
    "abs",
    "length",
    "lower",
    "upper",
    "trim",
    "ltrim",
    "rtrim",
    "round",
    "date",
    "time",
    "datetime",
    "julianday",
    "typeof",
    "hex",
    "quote",
    "sign",
    "unicode",
    "char",
    "likely",
    "unlikely",
)
COMMON = ("abs", "length", "lower", "upper", "trim", "round", "date")
# They take any number of arguments.
DATES = ("date", "time", "datetime", "julianday", "strftime")
TWO_ARGUMENTS = (
    "round",
    "ifnull",
    "coalesce",
    "nullif",
    "instr",
    "trim",
    "ltrim",
    "rtrim",
    "date",
    "time",
    "datetime",
    "julianday",
    "substr",
    "min",
    "max",
)
THREE_ARGUMENTS = ("substr", "replace", "coalesce", "iif", "strftime", "date", "printf")
# Window functions proper; aggregates are window functions too.
RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")
OFFSETS = ("lag", "lead", "first_value", "last_value")
TYPES = ("integer", "int", "real", "float", "text", "numeric", "date")
SIZED_TYPES = ("varchar", "char", "decimal", "numeric")
COLLATIONS = ("nocase", "binary", "rtrim")
