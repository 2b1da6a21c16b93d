"""The commands of ``%acp``, by what they are about. `magics` puts them together."""
