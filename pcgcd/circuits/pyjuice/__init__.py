"""The bridge to pyjuice: its graphs as our circuits, and our circuits as its graphs.

pyjuice itself is imported only when one of these functions is called.
"""

from __future__ import annotations

from pcgcd.circuits.pyjuice.library import compile_pyjuice
from pcgcd.circuits.pyjuice.reading import from_pyjuice
from pcgcd.circuits.pyjuice.writing import PyjuiceExport, to_pyjuice

__all__ = ["PyjuiceExport", "compile_pyjuice", "from_pyjuice", "to_pyjuice"]
