"""``acp-jupyter doctor``: what is checked of this installation and of agents, and what to do about
it."""
