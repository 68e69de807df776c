"""What is raised inside a turn to leave what it is doing: none of these is an error of its worker."""

from __future__ import annotations

from windlass.kernel.outcomes import Outcome, Stopped


class ParkTurn(Exception):
    """Raised inside a turn when all that is left to do is to wait."""


class JournalEnds(ParkTurn):
    """Raised inside a turn that is only replayed, where it would go live: there is nothing more to replay."""


class ReplayBlocked(Exception):
    """Raised inside a turn that is only replayed, where its function needs what a replay has not; it says what."""


class StopTurn(Exception):
    """Raised inside a turn when its worker leaves: it goes on elsewhere."""


class CancelTurn(Exception):
    """Raised inside a turn that was cancelled where it would do something new."""


class PluginFault(Exception):
    """A hook failed; `outcome` is how a turn ends that cannot do without it."""

    def __init__(
        self,
        plugin: str,
        hook: str,
        error: BaseException,
        *,
        is_ours: bool = False,
        ends: Outcome | None = None,
    ) -> None:
        # What a plugin's error says may hold anything, secrets too; its kind is enough to find it.
        what = str(error) if is_ours else f"raised {type(error).__name__} in {hook}"
        super().__init__(f"the plugin {plugin} {what}")
        self.plugin = plugin
        self.outcome: Outcome = ends or Stopped(reason="runtime_error", detail=str(self))


class PromptFault(PluginFault):
    """The prompt that agent, caller and prompter make cannot be used; no plugin is to blame."""

    def __init__(self, reason: str) -> None:
        Exception.__init__(self, reason)
        self.plugin = ""
        self.outcome = Stopped(reason="runtime_error", detail=reason)


class TurnOver(Exception):
    """Raised inside a turn that a plugin ends here."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("a plugin ended the turn")
        self.outcome = outcome
