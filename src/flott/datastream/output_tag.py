"""The names of side outputs. A value that is part of the program and is compared by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from flott._absent import no_java_object
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.errors import ProgramError

__all__ = ["OutputTag"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar  # needed only by type checkers

    T = DefaultedTypeVar("T", default=Any)
else:
    T = TypeVar("T")


class OutputTag(Generic[T]):
    """The name of a side output, and optionally the type of its records: one of ``Types``, or a type hint.

    A process function yields a pair of a tag and a value to send the value there::

        late = OutputTag("late", str)
        ...
        yield late, value                       # in process_element
        ...
        stream.get_side_output(late).print()

    Two tags of the same id are the same tag. Without a type, records are pickled; a list of types means a row of them.
    The type is enforced where the side output is read: the tag given to ``get_side_output`` declares it.
    """

    __slots__ = ("tag_id", "type_info")

    #: Whether a tag was created or unpickled in this process. Before that, no record can belong to a side output, and
    #: the runtime does not have to examine records.
    any_created: ClassVar[bool] = False

    tag_id: str
    type_info: TypeInformation | None

    get_java_output_tag = no_java_object("get_java_output_tag")

    @overload
    def __init__(self, tag_id: str, type_info: type[T]) -> None: ...

    @overload
    def __init__(self: OutputTag[Any], tag_id: str, type_info: TypeHint | list[Any] | None = None) -> None: ...

    def __init__(self, tag_id: str, type_info: TypeHint | list[Any] | None = None) -> None:
        if not tag_id or not isinstance(tag_id, str):
            raise ValueError(f"The id of an OutputTag is a text of at least one character, found {tag_id!r}.")
        self.__setstate__((tag_id, _declared(tag_id, type_info)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"OutputTag is immutable: cannot set {name!r}.")

    def __getstate__(self) -> tuple[str, TypeInformation | None]:
        return self.tag_id, self.type_info

    def __setstate__(self, state: tuple[str, TypeInformation | None]) -> None:
        object.__setattr__(self, "tag_id", state[0])
        object.__setattr__(self, "type_info", state[1])
        OutputTag.any_created = True

    def __eq__(self, other: Any) -> bool:
        return self.tag_id == other.tag_id if isinstance(other, OutputTag) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        typed = "" if self.type_info is None else f", {self.type_info!r}"
        return f"OutputTag({self.tag_id!r}{typed})"


def _declared(tag_id: str, type_info: TypeHint | list[Any] | None) -> TypeInformation | None:
    try:
        if isinstance(type_info, list):
            return Types.ROW(type_info)
        return None if type_info is None else type_of(type_info)
    except ProgramError as error:
        raise TypeError(f"The type of OutputTag {tag_id!r} is not one: {error}") from None
