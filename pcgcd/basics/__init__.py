"""Small things that every part of the library needs; they know nothing of the rest."""
