"""What was checked and how it ended: a line for each, printed and kept for `run.sh` to count."""

import argparse
import traceback
from contextlib import contextmanager
from pathlib import Path


class Results:
    def __init__(self, path):
        self._path = path

    @contextmanager
    def check(self, name):
        """Whatever is raised within fails this check and no other."""
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
    """The command line of every group of checks."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mcpd", type=Path, required=True)
    parser.add_argument("--installed", type=Path, required=True, help="the directory that run.sh installs in")
    parser.add_argument("--results", type=Path, required=True)
    return parser.parse_args()
