"""How DBOS is set up, for the two peers that stand on it."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from pathlib import Path

from dbos import DBOS


def launch(folder: Path) -> None:
    """Start DBOS on a file; workflows that a killed process left are started again."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/dbos.db",
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": "local",
        }
    )
    DBOS.launch()
