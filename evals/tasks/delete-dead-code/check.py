import subprocess
import sys
from pathlib import Path

assert not Path("legacy.py").exists()
told = subprocess.run([sys.executable, "-B", "main.py"], capture_output=True, text=True, check=True)
assert told.stdout == "**Dear Ada**\n"
