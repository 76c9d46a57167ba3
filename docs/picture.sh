#!/usr/bin/env bash
# Draws the picture of the README from a real run of the demo: colours, widths and figures are the terminal's own.
set -euo pipefail
cd "$(dirname "$0")/.."
make -s build
COLUMNS=118 script -qec 'stty cols 118 2>/dev/null; bin/berth-demo' /dev/null </dev/null |
  tr -d '\r' | sed -e '/^The same as a message/,$d' |
  go run ./docs/picture -title 'make demo' -columns 118 > docs/demo.svg
