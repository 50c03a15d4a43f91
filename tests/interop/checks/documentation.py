"""Checks that the exchange in docs/connect.md works as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import results
from daemon import Daemon
from software import Software

PAGE = Path(__file__).parents[3] / "docs/connect.md"


def check(mcpd, software):
    page = PAGE.read_text()
    [program, printed] = (re.search(f"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "text"))
    with Daemon(mcpd, {"everything": software.node("everything")}) as daemon, TemporaryDirectory() as directory:
        (Path(directory) / "mcpd").symlink_to(daemon.runtime)
        env = {**os.environ, "XDG_RUNTIME_DIR": directory}
        output = subprocess.check_output([sys.executable, "-c", program], env=env, text=True, timeout=20)
        assert output == printed, output


def main():
    arguments = results.arguments(__doc__)
    with results.Results(arguments.results).check("the exchange in docs/connect.md goes as printed"):
        check(arguments.mcpd, Software(arguments.installed))


main()
