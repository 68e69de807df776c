import subprocess
import sys

from repeated import repeated

assert repeated([]) == []
assert repeated(list("abcab")) == ["a", "b"]
assert repeated(list("cbabc")) == ["c", "b"]
program = "from repeated import repeated; items = [str(n % 40_000) for n in range(50_000)]; assert len(repeated(items)) == 10_000"
subprocess.run([sys.executable, "-B", "-c", program], check=True, timeout=20)
