"""Pydantic models as hints and results, told by what they are: windlass never imports pydantic."""

from __future__ import annotations

from typing import Any, Final

from windlass.errors import InvalidInput

_MARK: Final = "__pydantic_core_schema__"


def is_model(hint: object) -> bool:
    """Whether `hint` is a pydantic model."""
    return isinstance(hint, type) and hasattr(hint, _MARK) and hasattr(hint, "model_validate")


def is_from_pydantic(note: object) -> bool:
    """Whether `note`, found in an `Annotated`, belongs to pydantic or to what it builds on."""
    return type(note).__module__.partition(".")[0] in {"annotated_types", "pydantic"}


def schema_of(model: Any, ref_template: str) -> dict[str, Any]:  # noqa: ANN401 - no type of ours
    """Return the model's own schema of what it takes."""
    schema: dict[str, Any] = model.model_json_schema(ref_template=ref_template)
    return schema


def validated(model: Any, value: object) -> object:  # noqa: ANN401 - no type of ours
    """Return the model built from JSON, by its own rules.

    Raises:
        InvalidInput: `field` is the path inside the model; the values found are not repeated.
    """
    try:
        return model.model_validate(value)
    except ValueError as error:
        errors = getattr(error, "errors", None)
        if errors is None:
            raise
        first = errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in first["loc"])
        raise InvalidInput(first["msg"], field=path, found=first["type"]) from None


def dumped(value: Any) -> object:  # noqa: ANN401 - no type of ours
    """Return a model's value as JSON."""
    return value.model_dump(mode="json")
