"""The suite that every store passes: claims about the port's laws, put to a store of any author.

With pytest, one test per claim:

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=conformance.name_of)
    async def test_my_store(check: conformance.Check) -> None:
        if not await check.run(MyHarness()):
            pytest.skip("is about crashes, and this store does not outlive one")

Without, all at once: `await conformance.run(MyHarness())`.
"""

from importlib import import_module

from windlass.testing.conformance.checks import Check, claims_in
from windlass.testing.conformance.harness import StoreHarness

__all__ = ["CHECKS", "Check", "StoreHarness", "name_of", "run"]

_SUBJECTS = (
    "accepting", "leasing", "taking_over", "writing", "claiming", "waiting",
    "arriving", "entering", "lining_up", "committing", "forking", "importing", "keeping", "driving",
    "noticing", "claiming_turns", "listing",
    "sending", "repeating", "dropping", "starting", "guarding", "handing_over", "signalling", "moving",
    "retaining",
)  # fmt: skip
CHECKS: tuple[Check, ...] = tuple(
    check for subject in _SUBJECTS for check in claims_in(import_module(f"{__name__}.{subject}"))
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
