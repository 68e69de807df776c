"""The real local model behind HTTP, in a process of its own: `python local_server.py` prints its address.

It speaks three providers' languages: `/v1/chat/completions`, `/v1/responses`, `/v1/messages`. It ends when its
standard input is closed, so also with a test process that is killed.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.models.local import LocalModel
from windlass.models.local.weights import find_weights

MODEL = "smollm2"

# The model's own template (ChatML), with words for tools, of which it has none. The server reads from it how calls
# are written, and holds a call to its tool's schema from `<tool_call>` on. Whether to call stays the model's choice:
# the server does not hold it to `tool_choice`.
TEMPLATE = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- 'Tools:\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\n</tools>\nTo call a tool, write its name and arguments:\n' }}
    {{- '<tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant' }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {%- if call.function %}
                {%- set call = call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' + call.name + '", "arguments": ' }}
            {{- call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""


@contextmanager
def local_server() -> Iterator[str]:
    """Start the server; give its address, without a path, once it answers."""
    LocalModel(MODEL)  # is refused with what is missing, and the command that gets it
    command = [sys.executable, __file__]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server ended; see what it printed"
        try:
            yield address
        finally:
            process.stdin.close()
            process.kill()


def main() -> None:
    engine = importlib.import_module("xllamacpp")
    wanted = engine.CommonParams()
    wanted.model.path = str(find_weights())
    wanted.model_alias = [MODEL]
    wanted.chat_template = TEMPLATE
    wanted.use_jinja = True
    wanted.endpoint_slots = True
    wanted.n_ctx = 2048
    wanted.n_batch = wanted.n_ubatch = 16
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    wanted.n_parallel = 1
    wanted.cache_ram_mib = 0
    wanted.warmup = False
    wanted.verbosity = -1
    wanted.hostnames, wanted.port = ["127.0.0.1"], 0
    server = engine.Server(wanted)  # returns when the weights are loaded
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
