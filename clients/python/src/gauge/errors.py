from __future__ import annotations

from typing import Any

from .types import Problem, UsageAnswer


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
