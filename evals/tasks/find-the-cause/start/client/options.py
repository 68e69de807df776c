"""Settings from the environment."""

import os

READ_TIMEOUT = float(os.environ.get("READ_TIMEOUT", "30"))
# How long to wait for a connection.
connect_timeout = float(os.environ.get("DIAL_PATIENCE", "7"))
