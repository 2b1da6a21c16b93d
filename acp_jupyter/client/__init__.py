"""The composition root: an agent, its sessions, and the services that answer its requests.

Everything here runs on the trio thread; surfaces reach it through the portal.
"""
