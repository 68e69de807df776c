"""What became of an answer, told to whoever gave it."""

from __future__ import annotations

from windlass.cli import exit_code
from windlass.cli.json_lines import plain, write_json
from windlass.cli.terminal import console
from windlass.cli.wording import safe
from windlass.ports import WaitReceipt

_WORDS = {
    "accepted": "the answer stands",
    "already": "another answer came first",
    "expired": "too late: the time to answer is over",
    "superseded": "the question is void, because the rules changed",
}


def told_answer(receipt: WaitReceipt, *, json: bool) -> int:
    """Print a receipt; return the exit code."""
    code = exit_code.OK if receipt.status == "accepted" else exit_code.NOT_FINISHED
    answer = receipt.answer
    if json:
        stands = None if answer is None else plain(answer)
        write_json({"status": receipt.status, "answer": stands})
        return code
    by = f" (by {safe(answer.by)})" if answer is not None and answer.by else ""
    console().print(f"{receipt.status}: {_WORDS[receipt.status]}{by}")
    return code
