"""What the tests of models stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_certificate() -> Iterator[None]:
    """Every client of an SDK reads all certificates of the system, 40 to 120 ms of work for each of a thousand tests.

    Their servers have no certificate, so one that is nobody's does for all.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(Path(__file__).with_name("nobody.pem")))
        yield
