"""What plugins let into a turn at its checkpoints, and leave behind at its end."""

from __future__ import annotations

from windlass.kernel.outcomes import Outcome
from windlass.kernel.responses import CheckpointDelivery
from windlass.ports.directives import Finale, Stop
from windlass.ports.plugin import AtCheckpoint
from windlass.runtime.hooks import Hooks
from windlass.runtime.start_hooks import by_plugin
from windlass.runtime.turn_signals import PluginFault, TurnOver


async def hooked_delivery(
    hooks: Hooks, mail: CheckpointDelivery, at: AtCheckpoint, effect_id: int
) -> CheckpointDelivery:
    """Return what enters: the mail, then what each plugin brings.

    Raises:
        TurnOver: a plugin ends the turn.
    """
    messages, transient, causes = [*mail.messages], [*mail.transient_messages], [*mail.causes]
    turns, place = hooks.having("at_checkpoint"), 0
    while place < len(turns):
        place, said = await hooks.ask_from(turns, place, "at_checkpoint", str(effect_id), at)
        if said is None:
            break
        turn = turns[place]
        place += 1
        if isinstance(said, Stop):
            raise TurnOver(hooks.stopped(said, "limit", turn))
        messages += by_plugin(said.messages, turn.name)
        transient += by_plugin(said.transient, turn.name)
        causes += said.causes
    if not messages and not transient and not causes:
        return mail
    return CheckpointDelivery(
        messages=tuple(messages), transient_messages=tuple(transient), causes=tuple(causes)
    )


async def hooked_end(hooks: Hooks, outcome: Outcome) -> tuple[tuple[str, Finale], ...]:
    """Ask the plugins what they leave behind; one that fails is noted and leaves nothing."""
    found: list[tuple[str, Finale]] = []
    for turn in hooks.having("after_turn"):
        try:
            said = await hooks.ask(turn, "after_turn", "end", outcome)
            if said is not None:
                found.append((turn.name, said))
        except PluginFault as fault:
            hooks.hand.note_issue(str(fault), "plugin_failed")
    return tuple(found)
