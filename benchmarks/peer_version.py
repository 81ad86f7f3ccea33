"""Prints the version of an installed package as JSON; fails where it is not installed."""

import json
import sys
from importlib.metadata import version

print(json.dumps({"version": version(sys.argv[1])}))
