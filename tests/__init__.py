"""The tests of acp_jupyter, and the peers and tools they share."""
