"""Stops a replay where the user's own function begins to work on the record in question, or where it failed.

The function is found by watching calls: it is the first of the user's code that the engine calls while the operator in
question is at work. Key selectors are the user's, too, but are not what is debugged.
"""

from __future__ import annotations

import os
import pdb
import sys
import sysconfig
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from flott.runtime.epoch.failure import is_engine
from flott.runtime.operators.operator import Operator
from flott.runtime.replay.observation import ANY_KEY

Trace = Callable[[FrameType, str, Any], Any]


class RecordDebugger:
    """One pdb for one replay: it stops once and then follows the commands of the user."""

    def __init__(self, key: Any = ANY_KEY, make: Callable[[], pdb.Pdb] = pdb.Pdb):
        self._key = key
        self._make = make
        self._pdb: pdb.Pdb | None = None

    @property
    def has_stopped(self) -> bool:
        """Return whether the function was called at all."""
        return self._pdb is not None

    @property
    def was_left(self) -> bool:
        """Return whether the user has left the debugger: what failed since then failed because of that."""
        return self._pdb is not None and bool(getattr(self._pdb, "quitting", False))

    def approach(self, operator: Operator, key: Any, call: Callable[[], None]) -> None:
        """Make a call of an operator; stop in the user's function if the call comes to it."""
        if self._pdb is not None:
            call()
            return
        before = sys.gettrace()
        sys.settrace(self._watching(operator, key))
        try:
            call()
        finally:
            if self._pdb is None:  # otherwise the debugger has the say
                sys.settrace(before)

    def post_mortem(self, failure: BaseException) -> None:
        """Look at the frame in which the user's code failed."""
        cause = failure.__cause__ or failure
        debugger = self._make()
        debugger.reset()
        debugger.interaction(None, cause.__traceback__)

    def _watching(self, operator: Operator, key: Any) -> Trace:
        spec = operator.context.operator.node.spec
        selectors, functions = _selector_codes(operator), _codes_of(getattr(spec, "function", None))
        state = operator.context.keyed_state

        def is_meant() -> bool:
            if self._key is ANY_KEY or key is not None:
                return True  # the records of a call were chosen already
            return state is not None and bool(state.current.key == self._key)  # a timer, or a window that fires

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            code = frame.f_code
            caller = frame.f_back
            if (
                event == "call"
                and caller is not None
                and is_engine(caller.f_code.co_filename)
                and code not in selectors
                and (code in functions or _is_user_code(code))
                and is_meant()
            ):
                debugger = self._pdb = self._make()
                debugger.set_trace(frame)
                return debugger.trace_dispatch
            return None

        return trace


#: Where code is that others wrote, as a rule: the standard library and installed packages.
_INSTALLED = tuple(path + os.sep for name, path in sysconfig.get_paths().items() if "lib" in name)


def _is_user_code(code: CodeType) -> bool:
    """Return whether code is the user's. Code that hashes, compares and makes records is generated as a rule."""
    special = code.co_name.startswith("__") and code.co_name != "__call__"
    return not (special or is_engine(code.co_filename) or os.path.abspath(code.co_filename).startswith(_INSTALLED))


def _codes_of(function: Any) -> frozenset[CodeType]:
    """Return the code of a function, or of all methods of an object, wherever it is installed."""
    own = getattr(getattr(function, "__func__", function), "__code__", None)
    found = {own} if isinstance(own, CodeType) else set()
    for kind in type(function).__mro__:
        found |= {code for part in vars(kind).values() if isinstance(code := getattr(part, "__code__", None), CodeType)}
    return frozenset(
        code for code in found if not is_engine(code.co_filename) and not code.co_name.startswith("__init")
    )


def _selector_codes(operator: Operator) -> frozenset[CodeType]:
    keys = operator.context.operator.node.keys
    return frozenset(code for key in keys if key is not None for code in _codes_of(key.selector))
