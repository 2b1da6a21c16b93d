"""Questions on standard input, for frontends that show no widgets (`jupyter console`).

A thread of its own sends the ``input_request`` and polls the socket for the reply, so that the
main thread stays interruptible; one question at a time.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import trio
import zmq

from ..rendering import text, words
from ..services.elicitation import Answer
from ..services.permissions import CannotAsk
from ..session.transcript import ElicitationEntry, PermissionEntry
from .dialogue import Masked, dialogue

if TYPE_CHECKING:
    from ipykernel.kernelbase import Kernel

TRIES: Final = 3
"""Answers that are none of the choices, before it counts as a no."""

POLL_MS: Final = 50

_one_reader: Final = threading.Lock()
"""The thread of a withdrawn question goes on for a moment: the next one's must not share the socket
with it, or the one takes what is meant for the other."""


class StdinAsker:
    """Asks through the kernel's stdin channel; made for one cell.

    Args:
        kernel: the running kernel; ``None`` only where `_input` is another one.
        parent: the ``execute_request`` that the question belongs to.
        ident: the routing prefix of that request.
        cwd: paths below it are shown relative to it.
        label: stands before each question; empty where only one agent can be asking.
    """

    def __init__(
        self,
        kernel: Kernel | None,
        parent: dict[str, Any],
        ident: list[bytes],
        *,
        cwd: str,
        label: str = "",
    ) -> None:
        self._kernel = kernel
        self._parent = parent
        self._ident = ident
        self._cwd = cwd
        self._label = f"{label}: " if label else ""
        self._one_at_a_time = trio.Lock()

    async def ask(self, entry: PermissionEntry) -> int | None:
        """See `services.permissions.Asker`."""
        async with self._one_at_a_time:
            prompt = self._prompt(entry)
            for _ in range(TRIES):
                reply = await self._input(self._label + prompt)
                answer = read_answer(reply, entry)
                if answer is not None:
                    return answer if answer >= 0 else None
                prompt = f"Answer with a number from 1 to {len(labels(entry))}: "
            return None

    async def elicit(self, entry: ElicitationEntry) -> Answer:
        """See `services.permissions.Asker`."""
        async with self._one_at_a_time:
            talk = dialogue(entry)
            prompt = next(talk)
            while True:
                masked = isinstance(prompt, Masked)
                reply = await self._input(self._label + prompt, masked=masked)
                try:
                    prompt = talk.send(reply)
                except StopIteration as end:
                    answer: Answer = end.value
                    return answer

    def _prompt(self, entry: PermissionEntry) -> str:
        question = text.render(entry, terminals={}, cwd=self._cwd).strip()
        choices = "\n".join(f"  [{i}] {label}" for i, label in enumerate(labels(entry), 1))
        return f"{question}\n{choices}\n> "

    async def _input(self, prompt: str, *, masked: bool = False) -> str:
        withdrawn: list[bool] = []
        try:
            return await trio.to_thread.run_sync(
                self._request, prompt, masked, withdrawn, abandon_on_cancel=True
            )
        except trio.Cancelled:
            withdrawn.append(True)
            raise

    def _request(self, prompt: str, masked: bool, withdrawn: list[bool]) -> str:
        with _one_reader:
            return "" if withdrawn else self._request_alone(prompt, masked, withdrawn)

    def _request_alone(self, prompt: str, masked: bool, withdrawn: list[bool]) -> str:
        kernel = self._kernel
        assert kernel is not None
        socket, session = kernel.stdin_socket, kernel.session
        if socket is None or session is None:
            raise CannotAsk("the kernel has no stdin channel")
        _discard_old_replies(socket)
        request = session.send(
            socket,
            "input_request",
            {"prompt": prompt, "password": masked},
            self._parent,
            ident=self._ident,
        )
        while not withdrawn:
            if socket.poll(POLL_MS):
                _, reply = session.recv(socket)
                if reply is None or not _answers(reply, request):
                    continue
                value = reply["content"].get("value")
                return value if isinstance(value, str) else ""
        return ""


def labels(entry: PermissionEntry) -> list[str]:
    """The choices of a question in our words, the client's own Deny last if it has none.

    Where our words are the same for two of them, or say nothing, the agent's stand beside them.
    """
    choices = [words.option_label(option) for option in entry.options]
    if not _can_deny(entry):
        choices.append("Deny")
    labelled = [
        f"{label} {words.option_words(option)}"
        if choices.count(label) > 1 or option.kind not in words.OPTION_LABELS
        else label
        for label, option in zip(choices, entry.options, strict=False)
    ]
    return [*labelled, *choices[len(labelled) :]]


def read_answer(reply: str, entry: PermissionEntry) -> int | None:
    """The index of an option, -1 for the client's own Deny, ``None`` for no answer at all."""
    reply = reply.strip().lower()
    if reply in ("n", "no", "deny"):
        return next((i for i, o in enumerate(entry.options) if o.kind == "reject_once"), -1)
    if reply in ("y", "yes", "allow"):
        return next((i for i, o in enumerate(entry.options) if o.kind == "allow_once"), None)
    if not (reply.isascii() and reply.isdigit()):
        return None
    number = int(reply)
    if 1 <= number <= len(entry.options):
        return number - 1
    return -1 if number == len(entry.options) + 1 and not _can_deny(entry) else None


def _can_deny(entry: PermissionEntry) -> bool:
    return any(option.kind == "reject_once" for option in entry.options)


def _answers(reply: dict[str, Any], request: Any) -> bool:
    """Whether a reply is to this request. It may be to one that was withdrawn while the user was
    typing; a frontend that does not say which one it means does not send those."""
    meant = reply["parent_header"].get("msg_id")
    return not meant or meant == request["header"]["msg_id"]


def _discard_old_replies(socket: Any) -> None:
    """An answer to a question that was withdrawn must not answer this one."""
    while True:
        try:
            socket.recv_multipart(zmq.NOBLOCK)
        except zmq.ZMQError:
            return
