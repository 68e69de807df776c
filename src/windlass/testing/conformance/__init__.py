"""The suite that every store passes: claims about the port's laws, put to a store of any author.

With pytest, one test per claim:

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
    async def test_my_store(check: conformance.Check) -> None:
        if not await check.run(MyHarness()):
            pytest.skip("is about crashes, and this store does not outlive one")

Without, all at once: `await conformance.run(MyHarness())`.
"""

from windlass.testing.conformance.accepting import ACCEPTING
from windlass.testing.conformance.arriving import ARRIVING
from windlass.testing.conformance.checks import Check
from windlass.testing.conformance.claiming import CLAIMING
from windlass.testing.conformance.committing import COMMITTING
from windlass.testing.conformance.driving import DRIVING
from windlass.testing.conformance.entering import ENTERING
from windlass.testing.conformance.forking import FORKING
from windlass.testing.conformance.harness import StoreHarness
from windlass.testing.conformance.keeping import KEEPING
from windlass.testing.conformance.leasing import LEASING
from windlass.testing.conformance.taking_over import TAKING_OVER
from windlass.testing.conformance.waiting import WAITING
from windlass.testing.conformance.writing import WRITING

__all__ = ["CHECKS", "Check", "StoreHarness", "name_of", "run"]

CHECKS: tuple[Check, ...] = tuple(
    check
    for claims in (
        ACCEPTING,
        LEASING,
        TAKING_OVER,
        WRITING,
        CLAIMING,
        WAITING,
        ARRIVING,
        ENTERING,
        COMMITTING,
        FORKING,
        KEEPING,
        DRIVING,
    )
    for check in claims.checks
)


def name_of(check: Check) -> str:
    """Return a check's name with its subject."""
    return f"{check.subject}: {check.name}"


async def run(harness: StoreHarness) -> tuple[str, ...]:
    """Put every claim to the harness's stores; return the names of those that applied and held.

    Raises:
        ExceptionGroup: with one error for each claim that did not hold.
    """
    held: list[str] = []
    errors: list[Exception] = []
    for check in CHECKS:
        try:
            if await check.run(harness):
                held.append(name_of(check))
        except Exception as error:  # noqa: BLE001  # whatever it is, the other claims are put, too
            error.add_note(name_of(check))
            errors.append(error)
    if errors:
        raise ExceptionGroup(f"{len(errors)} claims do not hold", errors)
    return tuple(held)
