import subprocess
import sys

RUN = """
import functools, sys, unittest
import roman

right = roman.roman


@functools.wraps(right)
def changed(number):
    return right(number).replace(*sys.argv[1:])


roman.roman = changed
unittest.main("test_roman", argv=["tests"])
"""


def passes(sign, other):
    """Run the tests with a function that writes another sign; the file is as it was, so reading it tells nothing."""
    told = subprocess.run([sys.executable, "-B", "-c", RUN, sign, other], capture_output=True, text=True)
    assert "Ran 0 tests" not in told.stderr, told.stderr
    return told.returncode == 0


assert passes("I", "I")
for sign, other in (("IV", "IIII"), ("IX", "VIIII"), ("XL", "XXXX"), ("XC", "LXXXX")):
    assert not passes(sign, other), f"the tests pass if {sign} is {other}"
