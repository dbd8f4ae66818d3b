from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from .client import read_usage_answer
from .errors import DeliveryError, OtherModeError, read_problem
from .transport import NO_ANSWER, Response, Transport, backoff
from .types import Problem, UsageAnswer

FIRST_BACKOFF = 0.25
LONGEST_BACKOFF = 30.0
LONGEST_PAUSE = 3600.0
OTHER_MODE = (
    "The idempotency key was already used in the other mode (live or test), so this event was not counted. "
    "Send it with another key."
)


@dataclass(frozen=True)
class Refused:
    line: str
    code: str
    detail: str


@dataclass
class Delivered:
    refused: list[Refused] = field(default_factory=list)
    left: list[Refused] = field(default_factory=list)
    """The service cannot record the events of these Organizations at the moment."""

    def __add__(self, other: Delivered) -> Delivered:
        return Delivered(self.refused + other.refused, self.left + other.left)


class Stopped(Exception):
    """The reporter is closing, so nothing waits for the answer any more."""


class Post:
    """Posts events, each a line of JSON, and repeats the identical request until the service gives a final answer."""

    def __init__(
        self, transport: Transport, path: str, stop: threading.Event, on_retry: Callable[[str, float], None]
    ) -> None:
        self._transport = transport
        self._path = path
        self._stop = stop
        self._on_retry = on_retry

    def __call__(self, lines: Sequence[str]) -> UsageAnswer | Problem:
        """Raises `DeliveryError` for a failure that no retry will fix, and `Stopped`."""
        body = f'{{"events":[{",".join(lines)}]}}'.encode()
        failures = 0
        while not self._stop.is_set():
            try:
                response = self._transport.send("POST", self._path, body, {"Prefer": "handling=lenient"})
            except ssl.SSLCertVerificationError as error:
                raise DeliveryError(str(error)) from error
            except NO_ANSWER as error:
                failures += 1
                self._pause(str(error) or type(error).__name__, backoff(FIRST_BACKOFF, failures, LONGEST_BACKOFF))
                continue
            if (response.status != 429 and response.status < 500) or is_of_organization(response):
                return read_final(response, lines)
            # Throttling does not count as a failure.
            failures += response.status != 429
            wait = response.retry_after if response.status in (429, 503) else None
            if wait is None:
                wait = backoff(FIRST_BACKOFF, failures, LONGEST_BACKOFF)
            self._pause(describe(response), min(wait, LONGEST_PAUSE))
        raise Stopped

    def _pause(self, reason: str, seconds: float) -> None:
        self._on_retry(reason, seconds)
        if self._stop.wait(seconds):
            raise Stopped


def read_final(response: Response, lines: Sequence[str]) -> UsageAnswer | Problem:
    body = response.json()
    if response.status == 202:
        try:
            return read_usage_answer(body, [organization_of(line) for line in lines])
        except OtherModeError as error:
            # The batch's other events are recorded. `refused_in` reports the events whose keys were used in the other
            # mode.
            return error.answer
    problem = read_problem(body)
    if problem is None or "location" in response.headers:
        raise response.foreign()
    if response.status == 401 or not (is_of_organization(response) or is_about_events(response.status, problem)):
        raise DeliveryError(f"{problem['detail']} ({response.status} {problem['code']})")
    return cast(Problem, {**problem, "status": response.status})


def is_about_events(status: int, problem: Problem) -> bool:
    """True if the events are the problem. A 403 lists their errors if a proxy has dropped the header `Prefer`."""
    if status in (413, 422):
        return True
    if status == 400:
        return problem["code"] in ("invalid_request", "invalid_json")
    return status == 403 and "errors" in problem


def describe(response: Response) -> str:
    problem = read_problem(response.json())
    return f"{response.status} {problem['code']}: {problem['detail']}" if problem else str(response.status)


def deliver_events(post: Callable[[Sequence[str]], UsageAnswer | Problem], lines: Sequence[str]) -> Delivered:
    """Delivers events until each is recorded, refused or left.

    Events that break the schema are removed, and the others are sent again; a batch that is refused as a whole is halved
    until the offending event is isolated. An Organization's refusal concerns only its own events.
    """
    if not lines:
        return Delivered()
    answer: Any = post(lines)
    if "accepted" not in answer:
        return deliver_refused(post, lines, range(len(lines)), answer)
    delivered = Delivered(refused_in(answer, lines))
    for part in answer.get("refused", []):
        own = [i for i, line in enumerate(lines) if organization_of(line) == part["organization"]]
        if can_record_later(part["status"]):
            delivered += deliver_events(post, [lines[i] for i in own])
        else:
            delivered += deliver_refused(post, lines, own, part)
    return delivered


def deliver_refused(
    post: Callable[[Sequence[str]], UsageAnswer | Problem], sent: Sequence[str], indexes: Sequence[int], problem: Any
) -> Delivered:
    """`indexes` are those of the refused lines among the ones sent."""
    lines = [sent[i] for i in indexes]
    refusals = [Refused(line, problem["code"], problem["detail"]) for line in lines]
    place = named_organization(problem)
    if place is not None:
        named = organization_of(sent[place])
        own = [one for one in refusals if organization_of(one.line) == named]
        others = [line for line in lines if organization_of(line) != named]
        delivered = Delivered([], own) if can_record_later(problem["status"]) else Delivered(own)
        return delivered + deliver_events(post, others)
    broken = broken_events(problem, sent)
    if broken:
        rest = [sent[i] for i in indexes if i not in broken]
        return Delivered(list(broken.values())) + deliver_events(post, rest)
    if len(lines) == 1:
        return Delivered(refusals)
    middle = len(lines) // 2
    return deliver_events(post, lines[:middle]) + deliver_events(post, lines[middle:])


def organization_of(line: str) -> Any:
    """None with an API key, or if the line is damaged."""
    try:
        return json.loads(line).get("organization")
    except (ValueError, AttributeError):
        return None


def named_organization(problem: Problem | None) -> int | None:
    """Index of an event whose Organization is refused with all its events. None if the event names none."""
    for error in problem.get("errors", []) if problem else []:
        if error["pointer"].endswith("/organization") and error["code"] != "invalid_request":
            return error.get("index")
    return None


def is_of_organization(response: Response) -> bool:
    return named_organization(read_problem(response.json())) is not None


def can_record_later(status: int) -> bool:
    return status in (401, 429) or status >= 500


def refused_in(answer: UsageAnswer, lines: Sequence[str]) -> list[Refused]:
    refused = [Refused(lines[one["index"]], one["code"], one["detail"]) for one in answer.get("rejected", [])]
    for warning in answer["warnings"]:
        if warning["code"] == "duplicate_mismatch" and "livemode" in warning.get("differs", []):
            refused.append(Refused(lines[warning["index"]], warning["code"], OTHER_MODE))
    return refused


def broken_events(problem: Problem, lines: Sequence[str]) -> dict[int, Refused]:
    """The events that the problem names, each with its first error."""
    broken: dict[int, Refused] = {}
    for error in problem.get("errors", []):
        index = error.get("index", -1)
        if not 0 <= index < len(lines) or index in broken:
            continue
        field = "/".join(error["pointer"].split("/")[3:])
        detail = f"{field} {error['detail']}" if field else error["detail"]
        broken[index] = Refused(lines[index], error["code"], detail)
    return broken
