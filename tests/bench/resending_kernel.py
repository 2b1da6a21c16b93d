"""The naive way to stream into a notebook: the whole output again with each update.

One display holds the answer as Markdown, another one all tool calls as HTML; every update of the
agent sends the one that changed once more. Else it is the minimal kernel.
"""

from __future__ import annotations

import html
from typing import Any

from ipykernel.kernelapp import IPKernelApp

from tests.bench.minimal_kernel import MinimalKernel


class ResendingKernel(MinimalKernel):
    implementation = "resending"
    banner = "The whole output with each update"

    async def do_execute(self, code: str, *rest: Any, **named: Any) -> dict[str, Any]:
        self._text = ""
        self._calls: dict[str, dict[str, Any]] = {}
        self._shown: set[str] = set()
        return await super().do_execute(code, *rest, **named)

    def _publish(self, update: dict[str, Any]) -> None:
        if update["sessionUpdate"] == "agent_message_chunk":
            self._text += update["content"]["text"]
            self._show("text", {"text/markdown": self._text, "text/plain": self._text})
        else:
            self._calls.setdefault(update["toolCallId"], {}).update(update)
            rows = "".join(map(_row, self._calls.values()))
            self._show("calls", {"text/html": rows, "text/plain": f"{len(self._calls)} calls"})

    def _show(self, name: str, data: dict[str, str]) -> None:
        display_id = f"{name}-{self.execution_count}"
        kind = "update_display_data" if display_id in self._shown else "display_data"
        self._shown.add(display_id)
        content = {"data": data, "metadata": {}, "transient": {"display_id": display_id}}
        self.send_response(self.iopub_socket, kind, content)


def _row(call: dict[str, Any]) -> str:
    summary = html.escape(f"{call.get('title')} {call.get('status')}")
    body = html.escape(repr([call.get("rawInput"), call.get("content"), call.get("rawOutput")]))
    return f"<details><summary>{summary}</summary><pre>{body}</pre></details>"


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=ResendingKernel)
