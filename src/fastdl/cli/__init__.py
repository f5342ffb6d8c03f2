"""The command line, `python -m fastdl COMMAND`: a module for each command, and what they share.

The module of a command has `add_arguments(parser)` and `run(options)`, which returns the exit
status. It is imported when the command is given, so it may import what it needs.
"""

COMMANDS = {  # and what each does
    "demo": "exchanges with the libraries that are installed here, checked as they are shown",
    "doctor": "what is installed, how it reaches fastdl, at what cost, and what is wrong with it",
    "bench": "what exchanges cost here, compared with what libraries offer themselves",
    "inspect": "everything that crosses when an array is handed over, and who takes it",
}
