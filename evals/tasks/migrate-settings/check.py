import json
from pathlib import Path

found = json.loads(Path("settings.json").read_text())
assert found == {
    "version": 2,
    "database": {"host": "db.internal", "port": 5432, "retries": 3},
    "theme": "dark",
}, found
assert Path("settings.json").read_text().startswith('{\n  "')
