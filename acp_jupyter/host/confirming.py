"""The client's own yes-or-no question, in the cell that runs and outside of any turn."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..services.permissions import CannotAsk
from ..session.transcript import PermissionChoice, PermissionEntry
from .asking import Asking

if TYPE_CHECKING:
    from .cell import CellContext
    from .host import Host


async def confirm(host: Host, cell: CellContext, title: str, *, why: str = "", remedy: str) -> bool:
    """Ask the user whether something may be done.

    Args:
        host: of the notebook.
        cell: that runs.
        title: what is asked about, one line.
        why: what it means; may be empty.
        remedy: what to do where nobody can be asked.

    Raises:
        UsageError: nobody can be asked.
    """
    ident = f"confirm-{secrets.token_hex(6)}"
    entry = PermissionEntry(
        ident,
        0,
        question_id=ident,
        title=title,
        description=why,
        options=[
            PermissionChoice("yes", "", "allow_once"),
            PermissionChoice("no", "", "reject_once"),
        ],
        origin="client",
    )
    try:
        return await Asking(host, cell).choose(entry) == 0
    except CannotAsk as error:
        raise UsageError(f"{title}: {error}", remedy=remedy) from error
