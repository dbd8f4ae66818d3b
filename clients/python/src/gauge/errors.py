from __future__ import annotations

import logging
import math
from http import HTTPStatus
from typing import Any

from .types import Problem, UsageAnswer

log = logging.getLogger("gauge")


class GaugeError(Exception):
    """Base of all errors of this package."""


class RefusedError(GaugeError):
    """The service refused the call; `code` says why, for example `limit_reached`."""

    def __init__(self, problem: Problem, retry_after: float | None = None) -> None:
        super().__init__(f"{problem['code']}: {problem['detail']}")
        self.problem = problem
        self.code: str = problem["code"]
        self.detail = problem["detail"]
        self.retry_after = retry_after
        """Seconds after which the call may succeed, or None if the service did not say."""


class CreditsExhaustedError(RefusedError):
    """The credits do not cover a reservation. Nothing is held."""

    def __init__(self, problem: Problem, required: float, available: float) -> None:
        super().__init__(problem)
        self.required = required
        """Credits that the reservation costs."""
        self.available = available
        """Credits that were available for its product."""


class DeliveryError(GaugeError):
    """No attempt got an answer, or the answer is not Gauge's."""


class OtherModeError(GaugeError):
    """Live events reused the idempotency keys of test events, or vice versa.

    These events are not counted; the others in the batch are.
    """

    def __init__(self, indexes: list[int], answer: UsageAnswer) -> None:
        places = ", ".join(map(str, indexes))
        super().__init__(f"Idempotency keys of events {places} were already used in the other mode (live or test).")
        self.indexes = indexes
        self.answer = answer


class SpoolFullError(GaugeError):
    """The spool would exceed `max_bytes`; the event was not accepted."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"The spool is full: {max_bytes} bytes of events are waiting for the service.")


def to_refusal(problem: Problem, retry_after: float | None) -> RefusedError:
    required, available = problem.get("required"), problem.get("available")
    if required is not None and available is not None:
        return CreditsExhaustedError(problem, required, available)
    return RefusedError(problem, retry_after)


def read_problem(body: Any) -> Problem | None:
    if isinstance(body, dict) and isinstance(body.get("code"), str) and isinstance(body.get("detail"), str):
        return body  # type: ignore[return-value]
    return None


# What a program's own callers are told, with Gauge's status. Every other refusal is the program's fault, not its caller's.
KEY_STATUSES = {
    "missing_key": 401,
    "invalid_key": 401,
    "key_expired": 401,
    "key_revoked": 401,
    "insufficient_scope": 403,
}
CALLER_STATUSES = {
    "entitlement_required": 403,
    "entitlement_read_only": 403,
    "limit_reached": 409,
    "credits_exhausted": 409,
    "invalid_request": 400,
    "quantity_out_of_range": 422,
}


class Refusal(GaugeError):
    """What an adapter answers to the caller of the program that uses it: a status, a problem as Gauge's, and headers."""

    media_type = "application/problem+json; charset=utf-8"

    def __init__(self, code: str, detail: str, retry_after: float | None = None, **members: Any) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.status = {**KEY_STATUSES, **CALLER_STATUSES}.get(code, 503)
        kind = {"type": f"/docs/errors#{code}", "title": HTTPStatus(self.status).phrase, "status": self.status}
        self.problem: dict[str, Any] = {**kind, "code": code, "detail": detail, **members}
        self.headers = {"Cache-Control": "no-store"}
        if self.status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after)))


def to_answer(error: GaugeError) -> Refusal:
    """Hides what does not concern the caller, such as a wrong key of the program itself."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RefusedError) and error.code in CALLER_STATUSES:
        members = {name: value for name, value in error.problem.items() if name not in ("code", "detail")}
        return Refusal(error.code, error.detail, error.retry_after, **members)
    log.error("Gauge could not be asked: %s", error)
    wait = error.retry_after if isinstance(error, RefusedError) else None
    return Refusal("unavailable", "Usage cannot be checked at the moment.", wait or 1)
