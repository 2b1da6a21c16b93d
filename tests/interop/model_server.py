"""A scripted model on the loopback address, behind the APIs that agents call.

OpenAI's chat completions and responses, Anthropic's messages and Gemini's generateContent, streamed
or not, with tool calls. What it answers is `wanted`'s. Nothing leaves the machine; whatever else an
agent asks for is answered with 404, and kept in `Model.unknown`.

    python -m tests.interop.model_server [PORT]
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.interop import apis
from tests.interop.wanted import SLOW_CHUNKS, SLOW_PAUSE, Call, Say, decide


class Model:
    """The server, in a ``with`` statement.

    Attributes:
        url: its address, without a path.
        asked: what each request of an agent came to: API, action, and the answer.
        unknown: requests that no API of ours has.
        results: what tools answered, as the agents tell it to the model.
    """

    def __init__(self, port: int = 0) -> None:
        self.asked: list[str] = []
        self.unknown: list[str] = []
        self.results: list[str] = []
        model = self

        class Handler(_Handler):
            pass

        Handler.model = model
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._stopping = threading.Event()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def pieces(self, said: Say) -> Iterator[str]:
        """The text in the pieces in which it is streamed."""
        if not said.slowly:
            words = said.text.split(" ")
            yield from (word if last else f"{word} " for last, word in _marked(words))
            return
        for _ in range(SLOW_CHUNKS):
            if self._stopping.wait(SLOW_PAUSE):
                return
            yield said.text


def _marked(words: list[str]) -> Iterator[tuple[bool, str]]:
    for number, word in enumerate(words, 1):
        yield number == len(words), word


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/models"):
            names = [{"id": "scripted", "object": "model", "type": "model", "created": 1}]
            self._json({"object": "list", "data": names, "has_more": False})
        else:
            self.model.unknown.append(f"GET {path}")
            self._json({"error": {"message": "there is no such thing here"}}, 404)

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        api = apis.find(path)
        if api is None or not isinstance(body, dict):
            self.model.unknown.append(f"POST {path}")
            self._json({"error": {"message": "there is no such thing here"}}, 404)
            return
        if path.endswith(("count_tokens", ":countTokens")):
            self._json({"input_tokens": 10, "totalTokens": 10})
            return
        request = api.read(body, stream="stream" in path or bool(body.get("stream")))
        self.model.results += [text for role, text in request.parts if role == "result"]
        answer = decide(request)
        said = answer.name if isinstance(answer, Call) else answer.text
        self.model.asked.append(f"{api.NAME} {request.action} -> {said}")
        if request.stream:
            self._events(api.stream(answer, self._pieces(answer)))
        elif isinstance(answer, Say) and answer.slowly:
            for _ in self.model.pieces(answer):
                pass
            self._json(api.whole(answer))
        else:
            self._json(api.whole(answer))

    def _pieces(self, answer: Say | Call) -> Iterable[str]:
        return self.model.pieces(answer) if isinstance(answer, Say) else ()

    def _body(self) -> Any:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        match self.headers.get("Content-Encoding", ""):
            case "gzip":
                data = gzip.decompress(data)
            case "deflate":
                data = zlib.decompress(data)
        try:
            return json.loads(data or b"{}")
        except ValueError:
            return None

    def _json(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, events: Iterable[tuple[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):  # the agent was cancelled, and has hung up
            for name, data in events:
                text = data if isinstance(data, str) else json.dumps(data)
                head = f"event: {name}\n" if name else ""
                self.wfile.write(f"{head}data: {text}\n\n".encode())
                self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Be silent."""


def main() -> None:
    with Model(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as model:
        print(model.url, flush=True)
        while True:
            time.sleep(60)


if __name__ == "__main__":
    main()
