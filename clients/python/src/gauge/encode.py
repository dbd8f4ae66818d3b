from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

# The service accepts exact decimals of up to 100 digits.
MAX_DIGITS = 100


def to_plain(value: object, place: str = "") -> Any:
    """Returns JSON values for what Python programs hold: None leaves a field out, times and UUIDs become text.

    Decimals stay as they are. Raises `ValueError` or `TypeError` with the place of a value that the service cannot store.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float, Decimal)):
        require_storable(value, place)
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return to_time(value, place)
    if isinstance(value, Mapping):
        return {
            str(name): to_plain(item, f"{place}/{name}" if place else str(name))
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, (list, tuple)):
        return [to_plain(item, f"{place}/{index}" if place else str(index)) for index, item in enumerate(value)]
    more = ", which is no time: use a datetime with a time zone" if isinstance(value, date) else ""
    raise TypeError(f"{place or 'The value'} is of the type {type(value).__name__}{more}.")


def require_storable(value: int | float | Decimal, place: str) -> None:
    number = Decimal(float.__repr__(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{place or 'The number'} is {value}, not a finite number.")
    exponent = int(number.as_tuple().exponent)
    if max(number.adjusted() + 1, 1) + max(-exponent, 0) > MAX_DIGITS:
        raise ValueError(f"{place or 'The number'} has more than {MAX_DIGITS} digits.")


def to_time(value: datetime, place: str = "") -> str:
    if value.utcoffset() is None:
        raise ValueError(
            f"{place or 'The time'} is {value} without a time zone: use an aware datetime, like datetime.now(timezone.utc)."
        )
    # In UTC, because RFC 3339 has no offsets with seconds, which time zones had in the past.
    return value.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def to_json(plain: Any) -> str:
    """Writes the values of `to_plain`; Decimals keep all digits, which the standard encoder cannot do."""
    if isinstance(plain, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{to_json(item)}" for name, item in plain.items()) + "}"
    if isinstance(plain, list):
        return "[" + ",".join(map(to_json, plain)) + "]"
    return str(plain) if isinstance(plain, Decimal) else json.dumps(plain)


def from_json(text: str) -> Any:
    """Reads numbers as floats, or as Decimals if a float would round them."""
    return json.loads(text, parse_float=read_number)


def read_number(digits: str) -> float | Decimal:
    number = float(digits)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(digits) else Decimal(digits)


def to_text(value: object) -> str:
    """A value in a path or a query string."""
    return to_time(value) if isinstance(value, datetime) else str(value)
