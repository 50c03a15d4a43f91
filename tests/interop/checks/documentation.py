"""Checks that the exchange in docs/connect.md works as printed, and that the configuration's schema follows its draft."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from jsonschema import Draft202012Validator

import results
from daemon import Daemon
from software import Software

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/connect.md"
SCHEMA = ROOT / "config/mcpd.schema.json"


def check(mcpd, software):
    page = PAGE.read_text()
    [program, printed] = (re.search(f"```{kind}\n(.*?)```", page, re.DOTALL)[1] for kind in ("python", "text"))
    with Daemon(mcpd, {"everything": software.node("everything")}) as daemon, TemporaryDirectory() as directory:
        (Path(directory) / "mcpd").symlink_to(daemon.runtime)
        env = {**os.environ, "XDG_RUNTIME_DIR": directory}
        output = subprocess.check_output([sys.executable, "-c", program], env=env, text=True, timeout=60)
        assert output == printed, output


def main():
    arguments = results.arguments(__doc__)
    report = results.Results(arguments.results)
    with report.check("the schema of the configuration follows JSON Schema 2020-12"):
        Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))
    with report.check("the exchange in docs/connect.md goes as printed"):
        check(arguments.mcpd, Software(arguments.installed))


main()
