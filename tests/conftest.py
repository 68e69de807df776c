"""What every test stands on: Hypothesis profiles, the one event loop windlass supports, and what a soak runs."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.limits import SOAK, times
from windlass.guards.secret import REGISTERED

# No deadline: shared machines stall, and a stall is not a bug. Not derandomized: each run looks
# somewhere new. The blob in a failure's output replays it anywhere.
settings.register_profile(
    "ci", deadline=None, derandomize=False, print_blob=True, max_examples=times(100)
)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_runtest_setup() -> None:
    """Forget the secrets of other tests: they hold for a process, and many tests share one."""
    REGISTERED.know(())


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in this hook, too
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a soak what it cannot try more often: all but properties and modules that count with `times`."""
    if SOAK == 1:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        counts = getattr(getattr(item, "module", None), "times", None) is times
        (kept if counts or item.get_closest_marker("hypothesis") else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept
