"""Session state: what has happened in one ACP session, as entries of a transcript.

Pure: no I/O, no clock, no randomness; times (seconds, any monotonic origin) and ids come as
arguments. `reducer` is the only writer, everyone else reads.
"""
