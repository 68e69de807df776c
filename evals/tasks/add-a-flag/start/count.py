"""Count the lines of a file."""

import argparse
from pathlib import Path

# One file at a time.
parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
options = parser.parse_args()
text = options.file.read_text()
print(len(text.splitlines()))
