"""``%acp queue``, ``budget`` and ``snapshot``: about the turns to come."""

from __future__ import annotations

import os

from ..errors import UsageError
from ..session.limits import NO_LIMITS, Limits
from .base import Commands, no_arguments, unknown_option


class TurnCommands(Commands):
    """What prompts wait, what they may take, what they are checked against."""

    TITLE = "Prompts"

    def _do_queue(self, arguments: list[str]) -> None:
        """%acp queue [TEXT], or %acp queue clear: have a prompt sent when the running turn has
        ended, in the same cell; without a text, list what waits."""
        link = self._link
        if arguments == ["clear"]:
            count = len(link.queue)
            link.queue.clear()
            self._say(f"{count} queued prompts dropped.")
            return
        if arguments:
            text = " ".join(arguments)
            assert self.shell is not None
            cwd = link.session.cwd if link.session is not None else self._host.cwd
            prompt = self._host.gather(text, namespace=self.shell.user_ns, cwd=cwd)
            place = link.call(self._cell(), link.enqueue, prompt, exclusive=False)
            self._say(f"Queued as number {place}.")
            return
        waiting = [f"{place}. {prompt.text}" for place, prompt in enumerate(link.queue, 1)]
        self._say("\n".join(waiting) or "Nothing is queued.")

    def _do_budget(self, arguments: list[str]) -> None:
        """%acp budget [--cost AMOUNT] [--seconds N] [--tokens N], or %acp budget off: caps on all
        turns of this notebook together; without an argument, what was spent."""
        link = self._link
        if arguments == ["off"]:
            link.caps = NO_LIMITS
        elif arguments:
            link.caps = _caps(arguments)
        caps = link.caps
        of_cost = f" of {caps.cost:g}" if caps.cost is not None else ""
        of_time = f" of {caps.seconds:g}" if caps.seconds is not None else ""
        tokens = f" At most {caps.tokens:,} tokens of context." if caps.tokens is not None else ""
        self._say(
            f"Spent: cost {link.spent.cost:.4g}{of_cost}, "
            f"{link.spent.seconds:.1f}{of_time} s.{tokens}"
        )

    def _do_snapshot(self, arguments: list[str]) -> None:
        """%acp snapshot: note how the files of the session's folder are, for the checks `changed`
        and `unchanged` of %%acp_check."""
        from ..services.workspace import snapshot

        no_arguments("snapshot", arguments)
        link = self._link
        cwd = link.session.cwd if link.session is not None else self._host.cwd
        link.snapshot = snapshot.take(os.path.realpath(cwd))
        self._say(f"{len(link.snapshot.files):,} files noted.")


def _caps(arguments: list[str]) -> Limits:
    """Read ``--cost 0.5 --seconds 60 --tokens 10000``."""
    found: dict[str, float] = {}
    words = iter(arguments)
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("--cost", "--seconds", "--tokens"):
            raise unknown_option(name, ["--cost", "--seconds", "--tokens", "off"])
        try:
            found[name] = float(value or next(words, ""))
        except ValueError as error:
            raise UsageError(
                f"{name} needs a number", remedy=f"For example `{name} 10`."
            ) from error
    tokens = found.get("--tokens")
    limits = Limits(
        found.get("--seconds"), found.get("--cost"), None if tokens is None else int(tokens)
    )
    limits.check()
    return limits
