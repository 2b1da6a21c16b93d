"""Agents on the official Python SDK: peers whose side of the wire is not ours."""
