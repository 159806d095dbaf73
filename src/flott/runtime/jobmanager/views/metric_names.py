"""How the things of a job are called in metric names, as Flink does it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

#: What separates the parts of a name elsewhere, and so may not be in one.
_SEPARATORS = str.maketrans(" .:,", "____")


def metric_scope(name: str) -> str:
    """The name of an operator as a part of a metric's.

    >>> metric_scope("Source: numbers")
    'Source__numbers'
    """
    return name.translate(_SEPARATORS)


def metric_scopes(names: Iterable[str]) -> list[str]:
    """The same for the operators of a chain, each another one.

    >>> metric_scopes(["Map", "Map", "Sink: Print"])
    ['Map', 'Map_2', 'Sink__Print']
    """
    scopes: list[str] = []
    for name in names:
        scope, number = metric_scope(name), 2
        candidate = scope
        while candidate in scopes:
            candidate, number = f"{scope}_{number}", number + 1
        scopes.append(candidate)
    return scopes
