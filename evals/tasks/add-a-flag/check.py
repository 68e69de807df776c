import subprocess
import sys
from pathlib import Path


def told(*args: str) -> str:
    return subprocess.run([sys.executable, "count.py", *args], capture_output=True, text=True, check=True).stdout


Path("three.txt").write_text("one two\nthree\n")
assert told("three.txt") == "2\n"
assert told("--words", "three.txt") == "3\n"
assert "--words" in Path("README.md").read_text()
Path("three.txt").unlink()
