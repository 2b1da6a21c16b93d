"""The model APIs: each reads a request into a `Request`, and writes an answer in its own form."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from tests.interop.wanted import Call, Request, Say, Tool, pictures, texts

Event = tuple[str, Any]
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class API(Protocol):
    NAME: str

    def read(self, body: dict[str, Any], *, stream: bool) -> Request: ...

    def whole(self, answer: Say | Call) -> dict[str, Any]: ...

    def stream(self, answer: Say | Call, pieces: Iterable[str]) -> Iterator[Event]: ...


def _ident(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:24]


def _joined(content: Any) -> str:
    return "\n".join(texts(content))


class Chat:
    """OpenAI's chat completions."""

    NAME = "chat"

    def read(self, body: dict[str, Any], *, stream: bool) -> Request:
        roles = {"tool": "result", "function": "result", "assistant": "assistant", "user": "user"}
        parts = [
            (roles.get(m.get("role", ""), "system"), _joined(m.get("content")))
            for m in body.get("messages", [])
        ]
        tools = [
            Tool(t["function"]["name"], t["function"].get("parameters") or {})
            for t in body.get("tools") or []
            if "function" in t
        ]
        return Request(parts, tools, stream, pictures(body.get("messages")))

    def whole(self, answer: Say | Call) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(answer, Say):
            message["content"] = answer.text
        else:
            message["tool_calls"] = [self._call(answer)]
        choice = {"index": 0, "message": message, "finish_reason": self._reason(answer)}
        return {**self._head("chat.completion"), "choices": [choice], "usage": USAGE}

    def stream(self, answer: Say | Call, pieces: Iterable[str]) -> Iterator[Event]:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in pieces:
            yield self._chunk({"content": piece})
        if isinstance(answer, Call):
            yield self._chunk({"tool_calls": [{"index": 0, **self._call(answer)}]})
        yield self._chunk({}, self._reason(answer))
        yield "", {**self._head("chat.completion.chunk"), "choices": [], "usage": USAGE}
        yield "", "[DONE]"

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return "", {**self._head("chat.completion.chunk"), "choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "scripted"}

    def _call(self, call: Call) -> dict[str, Any]:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        return {"id": _ident("call_"), "type": "function", "function": function}

    def _reason(self, answer: Say | Call) -> str:
        return "tool_calls" if isinstance(answer, Call) else "stop"


class Responses:
    """OpenAI's responses."""

    NAME = "responses"

    def read(self, body: dict[str, Any], *, stream: bool) -> Request:
        given = body.get("input", [])
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        parts = []
        for item in items:
            if str(item.get("type", "")).endswith("_output"):
                parts.append(("result", _joined(item)))
            elif "role" in item:
                parts.append((item["role"], _joined(item.get("content"))))
        tools = [
            Tool(t["name"], t.get("parameters") or {}, t.get("type") == "custom")
            for t in body.get("tools") or []
            if "name" in t
        ]
        return Request(parts, tools, stream, pictures(items))

    def whole(self, answer: Say | Call) -> dict[str, Any]:
        text = answer.text if isinstance(answer, Say) else ""
        return self._response("completed", [self._item(answer, text)])

    def stream(self, answer: Say | Call, pieces: Iterable[str]) -> Iterator[Event]:
        yield self._event("response.created", response=self._response("in_progress", []))
        item = self._item(answer, "")
        place = {"output_index": 0, "item_id": item["id"]}
        yield self._event("response.output_item.added", output_index=0, item=item)
        text = ""
        if isinstance(answer, Say):
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self._event("response.content_part.added", **place, content_index=0, part=part)
            for piece in pieces:
                text += piece
                yield self._event(
                    "response.output_text.delta", **place, content_index=0, delta=piece
                )
            yield self._event("response.output_text.done", **place, content_index=0, text=text)
        elif answer.free_form is None:
            arguments = json.dumps(answer.arguments)
            yield self._event("response.function_call_arguments.done", **place, arguments=arguments)
        item = {**self._item(answer, text), "id": item["id"]}
        yield self._event("response.output_item.done", output_index=0, item=item)
        yield self._event("response.completed", response=self._response("completed", [item]))

    def _event(self, kind: str, **more: Any) -> Event:
        return kind, {"type": kind, "sequence_number": 1, **more}

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        usage = {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "scripted"}
        rest = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        return {**head, **rest, "status": status, "output": output, "usage": usage}

    def _item(self, answer: Say | Call, text: str) -> dict[str, Any]:
        if isinstance(answer, Say):
            content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
            head = {"type": "message", "id": _ident("msg_"), "role": "assistant"}
            return {**head, "status": "completed", "content": content}
        head = {"call_id": _ident("call_"), "name": answer.name, "status": "completed"}
        if answer.free_form is not None:
            made = {"type": "custom_tool_call", "id": _ident("ctc_"), "input": answer.free_form}
            return {**made, **head}
        arguments = json.dumps(answer.arguments)
        return {"type": "function_call", "id": _ident("fc_"), "arguments": arguments, **head}


class Messages:
    """Anthropic's messages."""

    NAME = "messages"

    def read(self, body: dict[str, Any], *, stream: bool) -> Request:
        parts = []
        for message in body.get("messages", []):
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks:
                result = block.get("type") == "tool_result"
                parts.append(("result" if result else message["role"], _joined(block)))
        tools = [Tool(t["name"], t.get("input_schema") or {}) for t in body.get("tools") or []]
        return Request(parts, tools, stream, pictures(body.get("messages")))

    def whole(self, answer: Say | Call) -> dict[str, Any]:
        return {**self._message(), "content": [self._block(answer)], **self._end(answer)}

    def stream(self, answer: Say | Call, pieces: Iterable[str]) -> Iterator[Event]:
        yield self._event("message_start", message={**self._message(), "content": []})
        block = self._block(answer)
        empty: dict[str, Any] = {"text": ""} if isinstance(answer, Say) else {"input": {}}
        yield self._event("content_block_start", index=0, content_block={**block, **empty})
        if isinstance(answer, Say):
            for piece in pieces:
                yield self._delta({"type": "text_delta", "text": piece})
        else:
            arguments = json.dumps(answer.arguments)
            yield self._delta({"type": "input_json_delta", "partial_json": arguments})
        yield self._event("content_block_stop", index=0)
        end = self._end(answer)
        yield self._event("message_delta", delta=end, usage={"output_tokens": 5})
        yield self._event("message_stop")

    def _event(self, kind: str, **more: Any) -> Event:
        return kind, {"type": kind, **more}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return self._event("content_block_delta", index=0, delta=delta)

    def _message(self) -> dict[str, Any]:
        head = {"id": _ident("msg_"), "type": "message", "role": "assistant", "model": "scripted"}
        usage = {"input_tokens": 10, "output_tokens": 1}
        return {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}

    def _block(self, answer: Say | Call) -> dict[str, Any]:
        if isinstance(answer, Say):
            return {"type": "text", "text": answer.text}
        head = {"type": "tool_use", "id": _ident("toolu_"), "name": answer.name}
        return {**head, "input": answer.arguments}

    def _end(self, answer: Say | Call) -> dict[str, Any]:
        reason = "tool_use" if isinstance(answer, Call) else "end_turn"
        return {"stop_reason": reason, "stop_sequence": None}


class Gemini:
    """Gemini's generateContent."""

    NAME = "gemini"

    def read(self, body: dict[str, Any], *, stream: bool) -> Request:
        parts = []
        for content in body.get("contents", []):
            for part in content.get("parts", []):
                role = "user" if content.get("role") == "user" else "assistant"
                role = "result" if "functionResponse" in part else role
                parts.append((role, _joined(part)))
        tools = [
            Tool(f["name"], f.get("parametersJsonSchema") or f.get("parameters") or {})
            for group in body.get("tools") or []
            for f in group.get("functionDeclarations", [])
        ]
        return Request(parts, tools, stream, pictures(body.get("contents")))

    def whole(self, answer: Say | Call) -> dict[str, Any]:
        part: dict[str, Any]
        if isinstance(answer, Call):
            part = {"functionCall": {"name": answer.name, "args": answer.arguments}}
        else:
            part = {"text": answer.text}
        return self._chunk([part], "STOP")

    def stream(self, answer: Say | Call, pieces: Iterable[str]) -> Iterator[Event]:
        for piece in pieces:
            yield "", self._chunk([{"text": piece}])
        if isinstance(answer, Call):
            yield "", self.whole(answer)
        else:
            yield "", self._chunk([{"text": ""}], "STOP")

    def _chunk(self, parts: list[Any], reason: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}


def find(path: str) -> API | None:
    """The API that serves a path."""
    if path.endswith("/chat/completions"):
        return Chat()
    if path.endswith("/responses"):
        return Responses()
    if path.endswith(("/messages", "/messages/count_tokens")):
        return Messages()
    if path.endswith((":generateContent", ":streamGenerateContent", ":countTokens")):
        return Gemini()
    return None
