"""What the client does for the agent: its files, its commands, and who is asked before.

Each service answers one family of the agent's requests. Everything in those requests is the
agent's to choose, so a service acts only on what it has checked, says no with a `Refusal`, and
reports what it did. Services know nothing of notebooks: whom to ask and where to show things are
functions given to them.
"""
