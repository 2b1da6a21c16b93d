"""The registry of agents: who can be connected by name, and how each of them is started.

`model` is what the registry says, checked; `catalogue` what is known here: the snapshot that ships
with the package, or the registry as it was fetched last (`fetching`). `choosing` picks how an
agent is started on this machine, `binaries` brings one that has to be downloaded, and
`unpacking` opens its archive. What the user has allowed is remembered by `services.consents`.

Everything a registry says is untrusted until the user has seen it: it never decides what runs
unasked. The modules do blocking I/O: call them from a thread.
"""
