"""The oldest versions that ``setup.cfg`` allows, as constraints for pip.

``python tests/floors.py torch==2.13.0`` names another version of a package. Needs Python alone.
"""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Beside the requirements: what the types need, and the tests.
_EXTRAS = ("types", "distill", "dev")


def floors(*replaced: str) -> list[str]:
    """Lines ``name==lower bound`` for everything that has one.

    Args:
        replaced: Lines that stand for those of the same package.
    """
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    wanted = [settings["options"]["install_requires"]]
    wanted += [settings["options.extras_require"][name] for name in _EXTRAS]
    bounds = re.findall(r"^([\w-]+)(?:\[[\w,-]+\])?>=([\d.]+)", "\n".join(wanted), re.MULTILINE)
    lines = {name: f"{name}=={version}" for name, version in bounds}
    return list({**lines, **{line.partition("==")[0]: line for line in replaced}}.values())


if __name__ == "__main__":
    print("\n".join(floors(*sys.argv[1:])))
