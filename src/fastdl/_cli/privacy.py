"""Reports for others have no names of users and no folders of theirs: see `anonymous_all`."""

import re
import sys
import tempfile
from os import path

#: Home folders on Linux, macOS and Windows. A name may contain spaces only where a separator marks
#: its end; "<" begins a replacement, such as <python>.
HOMES = re.compile(
    r"(?:/home/|/Users/|[A-Za-z]:[\\/]+Users[\\/]+)"
    r"(?:[^/\\'\":<\n]*[^/\\\s'\":<](?=[/\\])|[^/\\\s'\":<]+)"
)


def anonymous(text: str) -> str:
    """`text` without the folders of this user and this environment."""
    folders = {
        tempfile.gettempdir(): "<temporary>",
        path.expanduser("~"): "~",
        sys.base_prefix: "<python>",
        sys.prefix: "<environment>",
    }
    for folder in sorted(folders, key=len, reverse=True):  # one may be in another
        if len(folder) > 1:
            for spelling in (folder, repr(folder)[1:-1], folder.replace("\\", "/")):
                text = text.replace(spelling, folders[folder])
    return HOMES.sub("~", text)


def anonymous_all(report):
    """The same for all texts of a report of dictionaries, lists and texts."""
    if isinstance(report, str):
        return anonymous(report)
    if isinstance(report, dict):
        return {anonymous(key): anonymous_all(value) for key, value in report.items()}
    if isinstance(report, list | tuple):
        return [anonymous_all(value) for value in report]
    return report
