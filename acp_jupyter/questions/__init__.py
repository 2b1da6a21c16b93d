"""Ways to put a question to the user while a cell runs: widgets, and standard input."""
