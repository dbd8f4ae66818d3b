"""Types of the requests and answers of `/api/` and `/service/`, generated from the OpenAPI document by `npm run client:python`."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypedDict
from uuid import UUID


class UsageBatch(TypedDict):
    events: list[UsageEvent]


class _UsageEventRequired(TypedDict):
    productSlug: str
    metric: str
    idempotencyKey: str | UUID


class UsageEvent(_UsageEventRequired, total=False):
    quantity: float | Decimal | None
    occurredAt: str | datetime | None
    subject: str | UUID | None
    dimensions: dict[str, Any] | None


class CloudEventData(TypedDict, total=False):
    productSlug: str
    quantity: float
    subject: str
    dimensions: dict[str, Any]


class _CloudEventRequired(TypedDict):
    specversion: Literal["1.0"]
    id: str
    source: str
    type: str


class CloudEvent(_CloudEventRequired, total=False):
    subject: str | None | UUID | None
    time: str | None | datetime | None
    datacontenttype: str | None | None
    data: CloudEventData | None | None
    data_base64: None


class _UsageAnswerRequired(TypedDict):
    accepted: int
    deduped: int
    warnings: list[UnitCapExceeded | LimitExceeded | DuplicateMismatch | TooManyDimensionValues | CreditsOverdrawn]


class UsageAnswer(_UsageAnswerRequired, total=False):
    rejected: list[RejectedEvent]


class UnitCapExceeded(TypedDict):
    code: Literal["unit_cap_exceeded"]
    productSlug: str
    metric: str
    unitCap: float
    used: float
    period: Period


class Period(TypedDict):
    start: str
    end: str


class _LimitExceededRequired(TypedDict):
    code: Literal["limit_exceeded"]
    productSlug: str
    metric: str
    limit: DeclaredLimit
    used: float


class LimitExceeded(_LimitExceededRequired, total=False):
    subject: str


class _DeclaredLimitRequired(TypedDict):
    quantity: float
    window: str
    enforcement: Literal["warn", "block"]


class DeclaredLimit(_DeclaredLimitRequired, total=False):
    per: Literal["subject"]


class _DuplicateMismatchRequired(TypedDict):
    code: Literal["duplicate_mismatch"]
    index: int


class DuplicateMismatch(_DuplicateMismatchRequired, total=False):
    differs: list[Literal["livemode"]]


class TooManyDimensionValues(TypedDict):
    code: Literal["too_many_dimension_values"]
    productSlug: str
    limit: int


class CreditsOverdrawn(TypedDict):
    code: Literal["credits_overdrawn"]
    productSlug: str
    overdraft: float


class RejectedEvent(TypedDict):
    index: int
    code: Literal["entitlement_required", "entitlement_read_only", "unknown_metric", "timestamp_out_of_range", "quantity_out_of_range", "unknown_dimension", "invalid_request"]
    detail: str


class _ProblemRequired(TypedDict):
    type: str
    title: str
    status: int
    code: ErrorCode
    detail: str
    requestId: str


class Problem(_ProblemRequired, total=False):
    errors: list[ErrorPlace]
    limit: dict[str, Any]
    required: float
    available: float

ErrorCode = Literal["invalid_json", "invalid_request", "session_cookie_not_allowed", "key_in_query_string", "missing_key", "invalid_key", "key_expired", "key_revoked", "not_signed_in", "insufficient_scope", "forbidden_role", "cross_site_request", "not_found", "method_not_allowed", "request_timeout", "key_not_active", "key_already_rotated", "idempotency_conflict", "body_too_large", "batch_too_large", "unsupported_media_type", "rate_limited", "headers_too_large", "unavailable", "clock_off", "internal", "entitlement_not_found", "event_not_found", "limit_reached", "credits_exhausted", "too_many_grants", "grant_closed", "trial_used", "unknown_metric", "unknown_dimension", "unknown_product", "unknown_plan", "timestamp_out_of_range", "quantity_out_of_range", "live_trading_disabled", "unknown_station", "unknown_market", "market_closed", "insufficient_funds", "insufficient_position", "risk_limit", "price_moved", "market_data_unavailable", "market_data_stale", "entitlement_required", "entitlement_read_only"]


class _ErrorPlaceRequired(TypedDict):
    pointer: str
    code: ErrorCode
    detail: str


class ErrorPlace(_ErrorPlaceRequired, total=False):
    index: int


class UsageSums(TypedDict):
    granularity: Literal["hour", "day", "month"]
    series: list[UsageSeries]


class _UsageSeriesRequired(TypedDict):
    productSlug: str
    metric: str
    points: list[UsagePoint]
    total: float


class UsageSeries(_UsageSeriesRequired, total=False):
    apiKeyId: str
    subject: str
    dimensions: dict[str, Any]
    other: bool


class UsagePoint(TypedDict):
    start: str
    quantity: float
    events: int


class _RecordedEventRequired(TypedDict):
    idempotencyKey: str
    productSlug: str
    metric: str
    quantity: float
    occurredAt: str
    receivedAt: str
    livemode: bool
    apiKeyId: str
    corrections: list[EventCorrection]


class RecordedEvent(_RecordedEventRequired, total=False):
    subject: str
    dimensions: dict[str, Any]


class EventCorrection(TypedDict):
    correctionKey: str
    previousQuantity: float
    quantity: float
    reason: str
    correctedAt: str
    correctedBy: Literal["api_key", "member", "operator"]


class UsageLookup(TypedDict):
    idempotencyKeys: list[str | UUID]


class UsageLookupAnswer(TypedDict):
    results: list[LookupResult]


class _LookupResultEventRequired(TypedDict):
    idempotencyKey: str
    productSlug: str
    metric: str
    quantity: float
    occurredAt: str
    receivedAt: str
    livemode: bool
    apiKeyId: str
    corrections: list[EventCorrection]


class LookupResultEvent(_LookupResultEventRequired, total=False):
    subject: str
    dimensions: dict[str, Any]


class _LookupResultRequired(TypedDict):
    idempotencyKey: str
    recorded: bool


class LookupResult(_LookupResultRequired, total=False):
    event: LookupResultEvent


class _ReservationInputRequired(TypedDict):
    productSlug: str
    metric: str
    quantity: float | Decimal
    idempotencyKey: str | UUID


class ReservationInput(_ReservationInputRequired, total=False):
    ttlSeconds: int | None
    subject: str | UUID | None
    dimensions: dict[str, Any] | None


class ReservationAnswer(TypedDict):
    reservation: Reservation
    limits: list[Limit]


class _ReservationRequired(TypedDict):
    id: str
    status: Literal["held", "settled", "released", "expired"]
    productSlug: str
    metric: str
    quantity: float
    idempotencyKey: str
    expiresAt: str
    settledQuantity: float | None
    createdAt: str


class Reservation(_ReservationRequired, total=False):
    subject: str
    dimensions: dict[str, Any]


class _LimitRequired(TypedDict):
    quantity: float
    window: str
    enforcement: Literal["warn", "block"]
    used: float
    held: float
    remaining: float
    resetsAt: str | None


class Limit(_LimitRequired, total=False):
    per: Literal["subject"]
    subject: str


class ReservationList(TypedDict):
    reservations: list[Reservation]
    nextCursor: str | None


class FoundReservation(TypedDict):
    reservation: Reservation


class SettlementInput(TypedDict, total=False):
    quantity: float | Decimal | None
    occurredAt: str | datetime | None


class SettlementAnswer(TypedDict):
    reservation: Reservation
    accepted: int
    deduped: int
    warnings: list[UnitCapExceeded | LimitExceeded | DuplicateMismatch | TooManyDimensionValues | CreditsOverdrawn | ReservationExpired | ReservationExceeded]


class ReservationExpired(TypedDict):
    code: Literal["reservation_expired"]


class ReservationExceeded(TypedDict):
    code: Literal["reservation_exceeded"]
    reserved: float
    used: float


class UsageCorrections(TypedDict):
    corrections: list[CorrectionInput]


class CorrectionInput(TypedDict):
    idempotencyKey: str | UUID
    quantity: float | Decimal
    reason: str
    correctionKey: str | UUID


class CorrectionAnswer(TypedDict):
    applied: int
    deduped: int
    results: list[CorrectionResult]


class CorrectionResult(TypedDict):
    idempotencyKey: str
    previousQuantity: float
    quantity: float


class Credits(TypedDict):
    balance: float
    held: float
    overdrafts: list[CreditOverdraft]
    grants: list[CreditGrant]


class CreditOverdraft(TypedDict):
    productSlug: str
    quantity: float


CreditGrantRollover = TypedDict("CreditGrantRollover", {"percent": int, "for": str})


class CreditGrant(TypedDict):
    id: str
    grantKey: str
    amount: float
    priority: int
    startsAt: str
    expiresAt: str | None
    productSlugs: list[str] | None
    rollover: CreditGrantRollover | None
    livemode: bool
    reason: str
    createdAt: str
    voidedAt: str | None
    voidReason: str | None
    burned: float
    remaining: float
    status: Literal["scheduled", "open", "spent", "expired", "voided"]


class CreditEntries(TypedDict):
    entries: list[CreditEntry]
    nextCursor: str | None


class CreditEntry(TypedDict):
    at: str
    hour: str
    kind: Literal["burn", "return", "expire", "roll", "void", "repay", "forgive"]
    productSlug: str | None
    grantKey: str | None
    amount: float


class EntitlementList(TypedDict):
    entitlements: list[Entitlement]
    nextCursor: str | None


class EntitlementCreditsBy(TypedDict):
    dimension: str
    prices: dict[str, Any]


class _EntitlementCreditsRequired(TypedDict):
    price: float
    enforcement: Literal["warn", "block"]
    available: float


class EntitlementCredits(_EntitlementCreditsRequired, total=False):
    by: EntitlementCreditsBy


class _EntitlementRequired(TypedDict):
    productSlug: str
    productName: str
    kind: Literal["live", "read_only"]
    usageMetric: str | None
    unitCap: float | None
    used: float
    remaining: float | None
    period: Period
    limits: list[Limit]
    features: dict[str, Any]
    startsAt: str
    endsAt: str | None


class Entitlement(_EntitlementRequired, total=False):
    limitsPerSubject: list[DeclaredLimit]
    credits: EntitlementCredits


class EntitlementCheck(TypedDict, total=False):
    productSlugs: list[str] | None
    items: list[EntitlementCheckItem] | None


class _EntitlementCheckItemRequired(TypedDict):
    productSlug: str


class EntitlementCheckItem(_EntitlementCheckItemRequired, total=False):
    quantity: float | Decimal | None
    subject: str | UUID | None
    dimensions: dict[str, Any] | None


class EntitlementCheckAnswer(TypedDict):
    results: list[EntitlementCheckResult]


class EntitlementCheckResult(TypedDict):
    productSlug: str
    allowed: bool
    reason: Literal["entitlement_required", "entitlement_read_only", "limit_reached", "credits_exhausted"] | None
    kind: Literal["live", "read_only"] | None
    unitCap: float | None
    used: float | None
    remaining: float | None
    overCap: bool
    limits: list[Limit]
    features: dict[str, Any]


class OwnApiKeyOrganization(TypedDict):
    id: str
    slug: str
    name: str


class OwnApiKey(TypedDict):
    apiKey: ApiKey
    organization: OwnApiKeyOrganization


class ApiKey(TypedDict):
    id: str
    name: str
    prefix: str
    scopes: list[Literal["usage:write", "usage:read", "usage:correct", "entitlements:read", "trading:read", "trading:write"]]
    livemode: bool
    state: Literal["active", "grace", "expired", "revoked"]
    lastUsedAt: str | None
    expiresAt: str | None
    revokedAt: str | None
    createdAt: str
    createdBy: str | None
    rotatedFromId: str | None


class UsageBatchOfMany(TypedDict):
    events: list[UsageEventOfMany]


class _UsageEventOfManyRequired(TypedDict):
    productSlug: str
    metric: str
    idempotencyKey: str | UUID
    organization: str


class UsageEventOfMany(_UsageEventOfManyRequired, total=False):
    quantity: float | Decimal | None
    occurredAt: str | datetime | None
    subject: str | UUID | None
    dimensions: dict[str, Any] | None


class _UsageAnswerOfManyRequired(TypedDict):
    accepted: int
    deduped: int
    warnings: list[Any]


class UsageAnswerOfMany(_UsageAnswerOfManyRequired, total=False):
    rejected: list[RejectedEvent]
    refused: list[RefusedPart]


class _RefusedPartErrorsRequired(TypedDict):
    pointer: str
    code: str
    detail: str


class RefusedPartErrors(_RefusedPartErrorsRequired, total=False):
    index: int


class _RefusedPartRequired(TypedDict):
    organization: str
    status: int
    code: str
    detail: str


class RefusedPart(_RefusedPartRequired, total=False):
    errors: list[RefusedPartErrors]


class _KeyVerificationRequired(TypedDict):
    secret: str


class KeyVerification(_KeyVerificationRequired, total=False):
    scope: Literal["usage:write", "usage:read", "usage:correct", "entitlements:read", "trading:read", "trading:write"] | None
    productSlug: str | None
    quantity: float | Decimal | None
    subject: str | UUID | None


class VerifiedKeyEntitlement(TypedDict):
    productSlug: str
    allowed: bool
    reason: Literal["entitlement_required", "entitlement_read_only", "limit_reached", "credits_exhausted"] | None
    kind: Literal["live", "read_only"] | None
    unitCap: float | None
    used: float | None
    remaining: float | None
    overCap: bool
    limits: list[Limit]
    features: dict[str, Any]


class _VerifiedKeyRequired(TypedDict):
    valid: bool
    code: str | None
    organization: str | None
    keyId: str | None
    name: str | None
    scopes: list[str]
    livemode: bool | None
    expiresAt: str | None


class VerifiedKey(_VerifiedKeyRequired, total=False):
    entitlement: VerifiedKeyEntitlement


class PortalSessionInput(TypedDict, total=False):
    expiresInMinutes: int | None
    pages: list[Literal["usage", "entitlements", "credits", "events", "keys"]] | None
    subject: str | UUID | None
    livemode: bool | None
    member: str | None
    returnUrl: str | None
    accent: str | None


class PortalSession(TypedDict):
    url: str
    expiresAt: str
