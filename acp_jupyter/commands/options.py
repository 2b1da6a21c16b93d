"""``%acp set`` and ``%acp permissions``: what the user has set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError
from ..rendering.characters import visible
from .base import Commands

if TYPE_CHECKING:
    from ..host.link import Link
    from ..session.options import Option


class OptionCommands(Commands):
    """Options of the session, and the policy for what the agent asks."""

    TITLE = "Options and permission"

    def _do_set(self, arguments: list[str]) -> None:
        """%acp set [NAME VALUE]: set an option of the session, such as mode or model; without
        arguments, list them with their values."""
        link = self._link
        if len(arguments) == 2:
            name, text = arguments
            known = link.session.options if link.session is not None else []
            is_switch = any(option.id == name and option.kind == "boolean" for option in known)
            value = {"true": True, "false": False}.get(text, text) if is_switch else text
            link.call(self._cell(), link.set_option, name, value)
        elif arguments:
            raise UsageError(
                "%acp set takes a name and a value", remedy="For example `%acp set model small`."
            )
        options = link.session.options if link.session is not None else []
        self._say(visible("\n".join(map(_option_line, options))) or "There are no options.")

    def _do_permissions(self, arguments: list[str]) -> None:
        """%acp permissions [ask|deny|allow|FILE], or %acp permissions revoke NUMBER|all:
        set what happens to what agents ask; list rules, remembered answers and decisions; forget
        answers."""
        from ..host import overview
        from ..services.policy_file import read_policy

        link = self._link
        if arguments[:1] == ["revoke"]:
            self._revoke(link, arguments[1:])
            return
        if len(arguments) > 1:
            raise UsageError(
                "%acp permissions takes one word",
                remedy="Use ask, deny, allow, the path of a policy file, or revoke NUMBER.",
            )
        if arguments:
            link.call(self._cell(), link.set_policy, read_policy(arguments[0]))
        session = link.session
        policy = self._host.policy if session is None else session.permissions.policy
        self._say(overview.permissions(policy, session))

    def _revoke(self, link: Link, arguments: list[str]) -> None:
        if len(arguments) != 1 or not (arguments[0] == "all" or arguments[0].isdigit()):
            raise UsageError(
                "%acp permissions revoke takes a number, or all",
                remedy="`%acp permissions` lists the remembered answers.",
            )
        number = None if arguments[0] == "all" else int(arguments[0])
        count = link.call(self._cell(), link.revoke, number)
        self._say(f"Forgot {count} remembered answer{'' if count == 1 else 's'}.")


def _option_line(option: Option) -> str:
    """``model = small (small, large)``."""
    values = [choice.value for choice in option.values[:20]] or ["true", "false"]
    value = str(option.value).lower() if option.kind == "boolean" else option.value
    return f"{option.id} = {value} ({', '.join(values)})"
