"""A conversation between programs: a line of standard input is a turn, a line of output what it came to."""

from __future__ import annotations

import sys
from typing import Any

from windlass import Runtime
from windlass.cli import exit_code, records
from windlass.cli.json_lines import write_json
from windlass.cli.talk.loop_thread import LoopThread
from windlass.cli.wording import is_finished


def talk_in_json(runtime: Runtime[Any], session_id: str, model: str | None) -> int:
    """Run turns until the input ends or one waits for somebody; the code is the last one's."""
    code = exit_code.OK
    with LoopThread() as loop:
        loop.call(runtime.__aenter__())
        try:
            while line := sys.stdin.readline():
                if not line.strip():
                    continue
                result = loop.call(runtime.session(session_id).run(line.strip(), model=model))
                write_json(records.result_record(result))
                if result.parked:
                    return exit_code.PARKED
                code = exit_code.OK if is_finished(result.outcome) else exit_code.NOT_FINISHED
        finally:
            loop.call(runtime.__aexit__(None, None, None))
    return code
