"""From the transcript to the frontend: which entries go out when, and as which messages.

Three ways, for the frontends that there are:

* ``updates``: each entry is an output of its own with its own display id, and is updated in place;
  a long message is cut into segments, so that an answer is not sent again and again.
* ``append``: text only ever appended (a console that ignores updates).
* ``final``: one output for each entry, when the turn ends (programs that compare outputs).
"""

from typing import Any, Literal

Publish = Literal["updates", "append", "final"]
Bundle = dict[str, Any]
"""Representations of one output by MIME type."""
