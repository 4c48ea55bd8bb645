"""The command line. A command is a module, so that `check` does not load torch."""

import sys
from importlib import import_module

COMMANDS = ("record", "build", "check")

if __name__ == "__main__":
    command, *arguments = sys.argv[1:] or [""]
    if command not in COMMANDS:
        sys.exit(f"one of {', '.join(COMMANDS)} is expected, not {command!r}")
    import_module(f"tests.symbolic.corpus.collect.{command}").main(*arguments)
