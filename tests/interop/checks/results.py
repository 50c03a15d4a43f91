"""Results of checks: one line each, printed and stored for `run.sh` to count."""

import argparse
import traceback
from contextlib import contextmanager
from pathlib import Path


class Results:
    def __init__(self, path):
        self._path = path

    @contextmanager
    def check(self, name):
        """An exception inside fails only this check."""
        try:
            yield
        except Exception:
            traceback.print_exc()
            self._say(f"FAIL {name}")
        else:
            self._say(f"ok   {name}")

    def _say(self, line):
        print(line, flush=True)
        with self._path.open("a") as results:
            print(line, file=results)


def arguments(description):
    """The command line that all groups of checks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    parser.add_argument("--results", type=Path, required=True)
    return parser.parse_args()
