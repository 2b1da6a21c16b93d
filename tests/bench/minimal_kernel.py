"""The kernel to compare with: it reads in batches and sends one IOPub message an update.

It is what one writes first: a `Kernel` subclass of a hundred lines, without a transcript,
Markdown, or anything that could be called a feature. A cell ``%acp connect -- COMMAND ARG...``
starts the agent, every other cell is a prompt. It allows what it is asked and serves files.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from ipykernel.kernelbase import Kernel

CONNECT = "%acp connect -- "


class MinimalKernel(Kernel):
    implementation = "minimal"
    implementation_version = "1"
    banner = "One message an update"
    language_info = {"name": "text", "mimetype": "text/plain", "file_extension": ".txt"}  # noqa: RUF012

    _agent: subprocess.Popen[bytes] | None = None
    _session = ""
    _rest = b""
    _last_id = 0

    async def do_execute(self, code: str, *_: Any, **__: Any) -> dict[str, Any]:
        if code.startswith(CONNECT):
            self._connect(shlex.split(code[len(CONNECT) :]))
        else:
            prompt = [{"type": "text", "text": code}]
            self._request("session/prompt", {"sessionId": self._session, "prompt": prompt})
        return {
            "status": "ok",
            "execution_count": self.execution_count,
            "payload": [],
            "user_expressions": {},
        }

    async def do_shutdown(self, restart: bool) -> dict[str, Any]:
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
        return {"status": "ok", "restart": restart}

    def _connect(self, command: list[str]) -> None:
        self._agent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        files = {"readTextFile": True, "writeTextFile": False}
        self._request("initialize", {"protocolVersion": 1, "clientCapabilities": {"fs": files}})
        new = self._request("session/new", {"cwd": os.getcwd(), "mcpServers": []})
        self._session = new["result"]["sessionId"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._agent is not None
        assert self._agent.stdin is not None
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._agent.stdin.write(data)
        self._agent.stdin.flush()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and serve the agent until the answer is there."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        assert self._agent is not None
        assert self._agent.stdout is not None
        while True:
            data = os.read(self._agent.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError("the agent closed its pipe")
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "method" in message:
                    self._serve(message)
                elif message["id"] == self._last_id:
                    return message  # the scripted agent sends nothing behind its answer

    def _serve(self, message: dict[str, Any]) -> None:
        params = message["params"]
        match message["method"]:
            case "session/update":
                self._publish(params["update"])
            case "session/request_permission":
                outcome = {"outcome": "selected", "optionId": params["options"][0]["optionId"]}
                self._send({"id": message["id"], "result": {"outcome": outcome}})
            case "fs/read_text_file":
                with open(params["path"], encoding="utf-8") as file:
                    self._send({"id": message["id"], "result": {"content": file.read()}})

    def _publish(self, update: dict[str, Any]) -> None:
        if update["sessionUpdate"] == "agent_message_chunk":
            text = update["content"]["text"]
        else:
            text = f"{update['toolCallId']}: {update.get('status', '')}\n"
        self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": text})


if __name__ == "__main__":
    IPKernelApp.launch_instance(kernel_class=MinimalKernel)
