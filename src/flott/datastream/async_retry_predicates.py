"""Predicates for an :class:`AsyncRetryStrategy` that decide whether a call is retried."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["empty_result_predicate", "has_exception_predicate", "exception_type_predicate"]


def empty_result_predicate(result: Sequence[object] | None) -> bool:
    """Return whether a call had no results.

    >>> empty_result_predicate([]), empty_result_predicate([0])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Return whether a call raised any exception.

    >>> has_exception_predicate(OSError())
    True
    """
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Return whether a call raised this exception. Set the type with :func:`functools.partial`.

    >>> from functools import partial
    >>> partial(exception_type_predicate, expected_error_type=OSError)(ConnectionError())
    True
    """
    return isinstance(error, expected_error_type)
