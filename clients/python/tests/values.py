"""Values as Python programs hold them, and as the service receives them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

from gauge.types import UsageEvent

# A float rounds it.
EXACT = "12345678901234567.000000000000000000001"
BAD_NUMBERS = [float("nan"), Decimal("NaN"), Decimal("sNaN"), float("inf"), Decimal("Infinity"), 1e300, 10**400, Decimal("1E+1000000"), -1]
KEY, SUBJECT, REGION = UUID(int=1), UUID(int=2), UUID(int=3)

NATIVE: UsageEvent = {
    "productSlug": "calls",
    "metric": "calls",
    "quantity": Decimal(EXACT),
    # An offset with seconds, as zones had before 1900.
    "occurredAt": datetime(2026, 1, 31, 12, 0, 0, 5, timezone(timedelta(hours=1, seconds=8))),
    "idempotencyKey": KEY,
    "subject": SUBJECT,
    "dimensions": {"region": REGION, "model": None},
}
# With a quantity of 0.5 instead of EXACT, which the standard encoder cannot write.
WRITTEN: dict[str, Any] = {
    "productSlug": "calls",
    "metric": "calls",
    "quantity": 0.5,
    "occurredAt": "2026-01-31T10:59:52.000005Z",
    "idempotencyKey": str(KEY),
    "subject": str(SUBJECT),
    "dimensions": {"region": str(REGION)},
}
