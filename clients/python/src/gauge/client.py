from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import quote, urlencode
from uuid import UUID

from .encode import to_json, to_plain, to_text
from .errors import DeliveryError, GaugeError, OtherModeError, read_problem, to_refusal
from .transport import NO_ANSWER, Transport, backoff, one_key
from .types import (
    CorrectionAnswer,
    CorrectionInput,
    CreditEntry,
    Credits,
    Entitlement,
    EntitlementCheckAnswer,
    EntitlementCheckItem,
    KeyVerification,
    OwnApiKey,
    RecordedEvent,
    Reservation,
    ReservationInput,
    SettlementAnswer,
    UsageAnswer,
    UsageAnswerOfMany,
    UsageEvent,
    UsageEventOfMany,
    UsageLookupAnswer,
    UsageSums,
    VerifiedKey,
)

# Pauses between attempts, in seconds. With these pauses, six attempts outlast a restart of the service.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
# Longest Retry-After that a call waits for, in seconds. If the service asks for a longer wait, the call raises an
# error that includes the requested wait.
LONGEST_RETRY_AFTER = 60.0


@dataclass
class Hold:
    """Units held for the work inside a `with` block."""

    reservation: Reservation
    used: float | Decimal | None = None
    """Units used, set by the block. If it is None, all held units count as used."""
    settlement: SettlementAnswer | None = None
    """The answer to the settlement, after the block."""


class GaugeClient:
    """A client for Gauge's API. Threads can share it.

    Arguments and answers are the dictionaries of the API reference. Arguments may contain Decimals, which arrive with all
    digits, aware datetimes and UUIDs; a field that is None is left out. `ValueError` or `TypeError` names a value that
    cannot be sent; nothing is then sent. A call that gets no answer, a 429 or a 5xx is
    retried, up to `attempts` attempts in total; idempotency keys make that safe. Every call can raise `RefusedError`
    and `DeliveryError`.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        service_key: str | None = None,
        timeout: float = 60.0,
        attempts: int = 6,
        allow_http: bool = False,
    ) -> None:
        """`service_key`, instead of `api_key`, acts for any Organization. `timeout` is in seconds, for each attempt.

        `allow_http` allows http to other machines, unencrypted.
        """
        if attempts < 1:
            raise ValueError("attempts must be at least 1.")
        self._transport = Transport(base_url, one_key(api_key, service_key), timeout, allow_http)
        self._attempts = attempts
        self._has_service_key = service_key is not None
        # None if a call needs an Organization.
        self._root = None if self._has_service_key else "/api"

    def __enter__(self) -> GaugeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes idle connections. A later call opens new ones."""
        self._transport.close()

    def for_organization(self, slug: str) -> GaugeClient:
        """With a service key: a client whose calls act for the Organization."""
        self._require_service_key()
        # In an address, dots would lead to another route.
        if slug in ("", ".", ".."):
            raise ValueError(f'"{slug}" is not the slug of an Organization.')
        client = copy(self)
        client._root = f"/service/organizations/{quote(slug, safe='')}"
        return client

    def send(self, events: Sequence[UsageEvent], *, lenient: bool = False, dry_run: bool = False) -> UsageAnswer:
        """Records up to 500 events: all or none or, with `lenient`, the valid ones; `rejected` then lists the others.

        Raises `OtherModeError` if live and test events are mixed up.
        """
        answer: UsageAnswer = self._send("/usage/events", events, lenient, dry_run)
        return answer

    def send_many(
        self, events: Sequence[UsageEventOfMany], *, lenient: bool = False, dry_run: bool = False
    ) -> UsageAnswerOfMany:
        """With a service key: like `send`, for events that each name their Organization.

        Each Organization's events are recorded or refused by themselves; `refused` lists the refusals. Raises `RefusedError`
        if all are refused.
        """
        self._require_service_key()
        answer: UsageAnswerOfMany = self._send("/service/usage/events", events, lenient, dry_run)
        return answer

    def verify(self, key: KeyVerification) -> VerifiedKey:
        """With a service key: whether an Organization's API key is valid and, if asked, may use a product."""
        self._require_service_key()
        answer: VerifiedKey = self._call("POST", "/service/keys/verify", key)
        return answer

    def check(self, items: Sequence[str | EntitlementCheckItem]) -> EntitlementCheckAnswer:
        """Checks whether up to 50 products, by slug or with a quantity, may be used. Only a reservation is a guarantee."""
        listed = [{"productSlug": item} if isinstance(item, str) else item for item in items]
        answer: EntitlementCheckAnswer = self._call("POST", "/entitlements/check", {"items": listed})
        return answer

    @contextmanager
    def reserve(self, reservation: ReservationInput) -> Iterator[Hold]:
        """Reserves, runs the block, and settles the units used. An exception in the block releases the hold.

        Raises if the settlement cannot be delivered; the hold then expires. Raises `CreditsExhaustedError` if there are not
        enough credits; the block then does not run.
        """
        hold = Hold(self.hold(reservation))
        id = hold.reservation["id"]
        try:
            yield hold
        except BaseException:
            self.release(id)
            raise
        hold.settlement = self.settle(id, hold.used)

    def hold(self, reservation: ReservationInput) -> Reservation:
        """Holds units until `settle` or `release`, or until they expire. `reserve` does all of it for a `with` block."""
        held: Reservation = self._call("POST", "/usage/reservations", reservation)["reservation"]
        return held

    def settle(self, id: str, used: float | Decimal | None = None) -> SettlementAnswer:
        """Records the units used, or all held units if `used` is None. Frees the others."""
        body = {} if used is None else {"quantity": used}
        answer: SettlementAnswer = self._call("POST", f"/usage/reservations/{id}/settle", body)
        return answer

    def release(self, id: str) -> None:
        """Frees the held units. If that fails, they stay held until they expire."""
        try:
            self._call("DELETE", f"/usage/reservations/{id}", attempts=1)
        except GaugeError:
            pass

    def correct(self, corrections: Sequence[CorrectionInput]) -> CorrectionAnswer:
        """Sets the quantities that up to 100 events should have had; 0 voids an event."""
        answer: CorrectionAnswer = self._call("POST", "/usage/corrections", {"corrections": list(corrections)})
        return answer

    def usage(
        self,
        start: str | date,
        end: str | date,
        *,
        product_slug: str | None = None,
        granularity: Literal["hour", "day", "month"] | None = None,
        group_by: str | None = None,
        subject: str | UUID | None = None,
        dimensions: Mapping[str, str | UUID | None] | None = None,
    ) -> UsageSums:
        """Returns usage sums from `start` to before `end`, which are dates or times with a time zone.

        `group_by` is `apiKey`, `subject` or the name of a dimension. `subject` and `dimensions` filter the usage.
        """
        query = {
            "from": start,
            "to": end,
            "productSlug": product_slug,
            "granularity": granularity,
            "groupBy": group_by,
            "subject": subject,
            **{f"dimension.{name}": value for name, value in (dimensions or {}).items()},
        }
        answer: UsageSums = self._call("GET", "/usage" + to_query(query))
        return answer

    def event(self, idempotency_key: str | UUID) -> RecordedEvent:
        answer: RecordedEvent = self._call("GET", f"/usage/events/{quote(to_text(idempotency_key), safe='')}")
        return answer

    def look_up(self, idempotency_keys: Sequence[str | UUID]) -> UsageLookupAnswer:
        """Returns which of up to 500 events are recorded."""
        answer: UsageLookupAnswer = self._call(
            "POST", "/usage/events/lookup", {"idempotencyKeys": list(idempotency_keys)}
        )
        return answer

    def credits(self) -> Credits:
        """The balance, the overdrafts and the grants."""
        answer: Credits = self._call("GET", "/credits")
        return answer

    def credit_entries(
        self,
        *,
        product_slug: str | None = None,
        grant_key: str | None = None,
        kind: Literal["burn", "return", "expire", "roll", "void", "repay", "forgive"] | None = None,
        start: str | date | None = None,
        end: str | date | None = None,
    ) -> Iterator[CreditEntry]:
        """The ledger of credits from `start` to before `end`, the newest entries first, page by page."""
        query = {"productSlug": product_slug, "grantKey": grant_key, "kind": kind, "from": start, "to": end}
        return self._pages("/credits/entries", "entries", query)

    def entitlements(self) -> Iterator[Entitlement]:
        """All entitlements, page by page."""
        return self._pages("/entitlements", "entitlements", {})

    def entitlement(self, product_slug: str) -> Entitlement:
        answer: Entitlement = self._call("GET", f"/entitlements/{quote(product_slug, safe='')}")
        return answer

    def reservations(
        self, status: Literal["held", "settled", "released", "expired"] | None = None
    ) -> Iterator[Reservation]:
        """All reservations, newest first, page by page."""
        return self._pages("/usage/reservations", "reservations", {"status": status})

    def reservation(self, id: str | UUID) -> Reservation:
        answer: Reservation = self._call("GET", f"/usage/reservations/{quote(to_text(id), safe='')}")["reservation"]
        return answer

    def api_key(self) -> OwnApiKey:
        """The key of this client and its Organization."""
        answer: OwnApiKey = self._call("GET", "/key")
        return answer

    def _require_service_key(self) -> None:
        if not self._has_service_key:
            raise ValueError("This call needs a service_key. An API key has its own Organization.")

    def _send(self, path: str, events: Sequence[UsageEvent], lenient: bool, dry_run: bool) -> Any:
        query = to_query({"dryRun": "true" if dry_run else None})
        headers = {"Prefer": "handling=lenient"} if lenient else None
        answer = self._call("POST", path + query, {"events": list(events)}, headers)
        return read_usage_answer(answer, [event.get("organization") for event in events])

    def _pages(self, path: str, field: str, query: Mapping[str, object]) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self._call("GET", path + to_query({**query, "cursor": cursor}))
            yield from page[field]
            cursor = page["nextCursor"]
            if cursor is None:
                return

    def _call(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        *,
        attempts: int | None = None,
    ) -> Any:
        if not path.startswith("/service/"):
            if self._root is None:
                raise ValueError("This call needs an Organization: use for_organization(slug).")
            path = self._root + path
        # Serialized once, so that every attempt sends the same bytes.
        data = None if body is None else to_json(to_plain(body)).encode()
        left = attempts or self._attempts
        failures = 0
        while True:
            left -= 1
            wait = 0.0
            try:
                response = self._transport.send(method, path, data, headers)
            except NO_ANSWER as error:
                if left == 0 or isinstance(error, ssl.SSLCertVerificationError):
                    raise DeliveryError(f"The service did not respond: {error}") from error
            else:
                answer = response.json()
                if 200 <= response.status < 300 and isinstance(answer, dict):
                    return answer
                wait = response.retry_after or 0.0
                is_final = response.status != 429 and response.status < 500
                if is_final or left == 0 or wait > LONGEST_RETRY_AFTER:
                    problem = read_problem(answer)
                    if problem is None:
                        raise response.foreign()
                    raise to_refusal(problem, response.retry_after)
            time.sleep(max(wait, backoff(FIRST_PAUSE, failures, LONGEST_PAUSE)))
            failures += 1


def to_query(values: Mapping[str, object]) -> str:
    given = {name: to_text(value) for name, value in values.items() if value is not None}
    return "?" + urlencode(given) if given else ""


def read_usage_answer(answer: Any, organizations: Sequence[object]) -> UsageAnswer:
    """Accepts only Gauge's own answer: any other could make unrecorded events count as recorded.

    `organizations` has the Organization of each event sent, or None.
    """
    try:
        counted = answer["accepted"] + answer["deduped"] + len(answer.get("rejected", []))
        counted += sum(organizations.count(part["organization"]) for part in answer.get("refused", []))
        indexes = [warning["index"] for warning in answer["warnings"] if is_of_other_mode(warning)]
    except (TypeError, KeyError, AttributeError):
        counted, indexes = None, []
    if counted != len(organizations):
        raise DeliveryError("The response does not account for all events sent. Is base_url a Gauge service?")
    if indexes:
        raise OtherModeError(indexes, answer)
    result: UsageAnswer = answer
    return result


def is_of_other_mode(warning: Any) -> bool:
    return warning["code"] == "duplicate_mismatch" and "livemode" in warning.get("differs", [])
