"""Functions in Python as catalogs hold them and as expressions name them."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from flott.errors import ProgramError
from flott.table._catalog.catalog_table import CatalogFunction
from flott.table._expressions.expression import UserFunction


def catalog_function(name: str, function: Any) -> CatalogFunction:
    """Return what a program registers: a decorated function, or an object of a function class."""
    made = as_user_function(name, function)
    return CatalogFunction(getattr(function, "__name__", type(function).__name__), function=made)


def user_function(name: str, held: CatalogFunction) -> UserFunction:
    """Return a function of a catalog as expressions name it; one that is known by its place is imported."""
    if held.function is not None:
        return as_user_function(name, held.function)
    module, _, attribute = held.class_name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ProgramError(
            f"Function '{name}' is said to be '{held.class_name}', which cannot be imported: {error}. Write the module"
            " and the name of a function or class, and give the module to the job with --pyFiles."
        ) from error
    return as_user_function(name, found() if isinstance(found, type) else found)


def as_user_function(name: str, function: Any) -> UserFunction:
    """Return any form of a function in Python as the value that expressions hold."""
    from flott.table import udf as api

    if isinstance(function, UserFunction):
        return replace(function, name=name)
    if isinstance(function, api.TableAggregateFunction):
        function = api.udtaf(function)
    elif isinstance(function, api.AggregateFunction):
        function = api.udaf(function)
    elif isinstance(function, api.TableFunction):
        function = api.udtf(function)
    elif not isinstance(function, api.UserDefinedFunctionWrapper):
        function = api.udf(function)
    made: UserFunction = replace(function.user_function, name=name)
    return made
