from pathlib import Path

lines = [line.strip() for line in Path("ANSWER.txt").read_text().splitlines() if line.strip()]
assert lines[0] == "DIAL_PATIENCE", lines
assert lines[1].endswith("client/options.py"), lines
assert float(lines[2].split()[0]) == 7, lines
