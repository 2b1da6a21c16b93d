"""How bytes reach an agent and come back: processes, sockets, and the thread that serves them.

Everything here but `portal` and the guard runs in trio. Nothing is imported with the package:
trio costs a kernel 50 ms or more of its start, so each module is imported where it is first used.
"""
