"""Which libraries have a bridge: an exchange table that fastdl made for a type without one.

What else must be known about particular libraries is in one table in fastdl.h, `fastdl_peers`,
whose rows name the type by its package; everything else is protocol.
"""

from collections import namedtuple

#: table: a capsule "dlpack_exchange_api"; type: the type it is for, since others may look alike;
#: borrow: a capsule "fastdl_borrower" (see fastdl.h).
Bridge = namedtuple("Bridge", "table type borrow")

#: By the package of the type; loaded when the first of its instances is seen.
MODULES = {"numpy": "fastdl.bridges._numpy"}


def find(package: str) -> "Bridge | None":
    """The bridge of the types of a package."""
    module = MODULES.get(package)
    if module is None:
        return None
    from importlib import import_module  # which `import fastdl` can do without

    return Bridge(*import_module(module).BRIDGE)
