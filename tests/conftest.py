"""What every test stands on: Hypothesis profiles and the one event loop windlass supports."""

from __future__ import annotations

import pytest
from hypothesis import settings

# No deadline: shared machines stall, and a stall is not a bug. Not derandomized: each run looks
# somewhere new. The blob in a failure's output replays it anywhere.
settings.register_profile("ci", deadline=None, derandomize=False, print_blob=True)
# For a long look: pytest --hypothesis-profile=deep
settings.register_profile("deep", settings.get_profile("ci"), max_examples=2_000)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"
