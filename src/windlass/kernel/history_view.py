"""What of a history a model is shown. The history itself never changes."""

from __future__ import annotations

from windlass.guards.text import check_text
from windlass.kernel.messages import Part
from windlass.kernel.value import Value, check_instance, set_field


class MessageReplaced(Value, kw_only=True):
    """A message that is shown with other parts."""

    id: str
    parts: tuple[Part, ...]


class HistoryView(Value, kw_only=True):
    """A view, by message id.

    Nothing before `drop_before` is shown. Before `clear_before` the outputs of tools and attachments are shown as
    `placeholder`, in which `{name}` and `{call_id}` stand for the call. `drop` and `replace` are for single messages.
    Both edges are one id each, so that what a turn records of its view does not grow with the history.
    """

    drop_before: str | None = None
    clear_before: str | None = None
    drop: tuple[str, ...] = ()
    replace: tuple[MessageReplaced, ...] = ()
    placeholder: str = ""

    def __post_init__(self) -> None:
        """Refuse what could not be looked up."""
        for name in ("drop", "replace"):
            if isinstance(getattr(self, name), list):
                set_field(self, name, tuple(getattr(self, name)))
            check_instance(getattr(self, name), tuple, field=f"HistoryView.{name}")
        for at, one in enumerate(self.replace):
            check_instance(one, MessageReplaced, field=f"HistoryView.replace[{at}]")
        check_text(self.placeholder, field="HistoryView.placeholder")


WHOLE = HistoryView()
