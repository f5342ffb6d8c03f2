# SPDX-License-Identifier: Apache-2.0
"""The command line, `python -m fastdl COMMAND`: a module for each command, and shared modules.

The module of a command has `add_arguments(parser)` and `run(options)`, which returns the exit
status. It is imported when the command is given, so it may import what it needs.
"""

COMMANDS = {  # and what each does
    "demo": "run and verify sample exchanges with the installed libraries",
    "doctor": "list the libraries, how fastdl reads their arrays, the costs, and known defects",
    "inspect": "show the export of an array, and which libraries accept it",
}
