"""Ready-made answers to "is this worth another attempt?", for an :class:`AsyncRetryStrategy`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["empty_result_predicate", "has_exception_predicate", "exception_type_predicate"]


def empty_result_predicate(result: Sequence[object] | None) -> bool:
    """Whether a call had no results.

    >>> empty_result_predicate([]), empty_result_predicate([0])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether a call raised anything at all.

    >>> has_exception_predicate(OSError())
    True
    """
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Whether a call raised this; fix the type with :func:`functools.partial` to make a predicate of it.

    >>> from functools import partial
    >>> partial(exception_type_predicate, expected_error_type=OSError)(ConnectionError())
    True
    """
    return isinstance(error, expected_error_type)
