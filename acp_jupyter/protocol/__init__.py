"""The wire, sans I/O: JSON-RPC framing, the methods of ACP, and its dialects.

Pure: bytes and dicts in, bytes and dicts out. Three rules hold here:

* The wire is tolerant: any line may come, and none of them raises.
* A dict is the truth while it is handled: ``null`` differs from absent by key presence.
* What is acted on was validated here; ``_meta`` never decides anything.
"""
