import subprocess
import sys
from pathlib import Path


def passes() -> bool:
    told = subprocess.run([sys.executable, "-B", "-m", "unittest", "test_roman"], capture_output=True, text=True)
    assert "Ran 0 tests" not in told.stderr, told.stderr
    return told.returncode == 0


right = Path("roman.py").read_text()
assert passes()
for pair in ('(4, "IV"), ', '(9, "IX"), ', '(40, "XL"), ', '(90, "XC"),'):
    assert pair in right
    Path("roman.py").write_text(right.replace(pair, ""))
    assert not passes(), f"the tests pass without {pair}"
Path("roman.py").write_text(right)
