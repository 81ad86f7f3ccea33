"""Readers of published data, one file for each format; they take paths and return plain values."""
