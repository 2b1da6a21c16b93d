"""``acp-jupyter doctor``: what is checked of this installation, and what to do about it."""
