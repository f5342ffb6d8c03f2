"""The mutants: ways to break fastdl, each of which must turn a test red.

Each is one mistake that a person could make. Its text must occur exactly once in its function, so
that it stays the mistake that its name says; who changes the function mends the table.
"""

from tests.mutants.contexts import OTHER_CONTEXTS, RESETS, WAITS_OF_THE_HOST
from tests.mutants.convert import CONVERSIONS, QUICK_IMPORTS
from tests.mutants.core import EXPORTS, HOST_COPIES, IMPORTS, LIFETIMES, OWNERSHIP, VIEWS
from tests.mutants.drivers import CAPTURE, CONTEXTS, IN_CALLBACKS, NUMBERS, THE_GIL
from tests.mutants.forms import FORMS
from tests.mutants.header import CHECKS, INTERRUPTS, NEGOTIATION
from tests.mutants.memory import MEMORIES
from tests.mutants.ordering import EDGES, EVENTS, PRODUCERS, WORK_STREAMS
from tests.mutants.policy import COPY_POLICY
from tests.mutants.producing import PRODUCING
from tests.mutants.sharing import SHARING
from tests.mutants.tensor import ELEMENTS, REMEMBERED, WHOLE_VIEWS

MUTANTS = [
    *OWNERSHIP,
    *IMPORTS,
    *EXPORTS,
    *VIEWS,
    *HOST_COPIES,
    *LIFETIMES,
    *ELEMENTS,
    *REMEMBERED,
    *WHOLE_VIEWS,
    *CHECKS,
    *NEGOTIATION,
    *INTERRUPTS,
    *EVENTS,
    *EDGES,
    *PRODUCERS,
    *WORK_STREAMS,
    *CONTEXTS,
    *OTHER_CONTEXTS,
    *RESETS,
    *WAITS_OF_THE_HOST,
    *THE_GIL,
    *IN_CALLBACKS,
    *CAPTURE,
    *NUMBERS,
    *MEMORIES,
    *COPY_POLICY,
    *FORMS,
    *CONVERSIONS,
    *QUICK_IMPORTS,
    *PRODUCING,
    *SHARING,
]
