"""Gauge for FastAPI and Starlette: customers' keys, entitlements, metering and limits."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .client import GaugeClient, Hold
from .errors import GaugeError, Refusal, to_answer
from .reporter import Reporter
from .types import EntitlementCheckResult, KeyVerification, VerifiedKey

T = TypeVar("T")
Dependency = Callable[[Request], Awaitable[T]]
KEY, AFTER = "gauge.key", "gauge.after"


class GaugeMiddleware:
    """Answers refusals with a problem as Gauge's, and reports usage after each response below 400."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        after = scope[AFTER] = list[Callable[[], object]]()
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except GaugeError as error:
            if scope["type"] != "http" or status != 0:
                raise
            answer = to_answer(error)
            response = JSONResponse(answer.problem, answer.status, answer.headers, answer.media_type)
            await response(scope, receive, send)
        finally:
            # Also if the caller left during the response, because the work was done.
            with anyio.CancelScope(shield=True):
                for report in after if 0 < status < 400 else []:
                    await run_in_threadpool(report)


class Gauge:
    """`verify_key`, `require_entitlement` and `meter` return dependencies, which Starlette awaits with the request."""

    def __init__(
        self,
        base_url: str,
        service_key: str,
        directory: str,
        *,
        organization: Callable[[Request], str] | None = None,
        timeout: float = 5.0,
        allow_http: bool = False,
    ) -> None:
        """`directory` is a folder on a local disk for usage that waits to be sent. `organization` returns the slug of the
        caller's Organization, by default that of the key that `verify_key` found. `timeout`: seconds per attempt."""
        options: dict[str, Any] = {"service_key": service_key, "allow_http": allow_http}
        self._client = GaugeClient(base_url, timeout=timeout, attempts=2, **options)
        self._reporter = Reporter(base_url, directory=directory, **options)
        self.close = self._reporter.close
        self._organization = organization or organization_of

    def verify_key(self, scope: Any = None, product_slug: str | None = None) -> Dependency[VerifiedKey]:
        """Returns the caller's key, sent as `Authorization: Bearer`. It must have the scope and may use the product."""

        async def verify(request: Request) -> VerifiedKey:
            kind, _, secret = request.headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not secret:
                raise Refusal("missing_key", "Send your API key as Authorization: Bearer <key>.")
            if len(secret) > 256 or not (secret.isascii() and secret.isprintable()):
                raise Refusal("invalid_key", "This is not an API key.")
            asked: KeyVerification = {"secret": secret, "scope": scope, "productSlug": product_slug}
            key = await run_in_threadpool(self._client.verify, asked)
            if key["code"] is not None:
                raise Refusal(key["code"], f"The API key cannot be used for this call: {key['code']}.")
            request.scope[KEY] = key
            return key

        return verify

    def require_entitlement(self, slug: str, quantity: float | None = None) -> Dependency[EntitlementCheckResult]:
        """Returns the result of the check. Under concurrency, only `with_limit` is a guarantee."""

        async def require(request: Request) -> EntitlementCheckResult:
            client = self._client.for_organization(self._organization(request))
            (result,) = (await run_in_threadpool(client.check, [{"productSlug": slug, "quantity": quantity}]))["results"]
            if result["reason"] is not None:
                raise Refusal(result["reason"], f"{slug} cannot be used for this call: {result['reason']}.")
            return result

        return require

    def meter(self, slug: str, metric: str, quantity: float | Callable[[Request], float] = 1) -> Dependency[None]:
        """Counts usage after the response. A function gets the request, in whose `state` the handler may leave values."""

        async def meter(request: Request) -> None:
            event: Any = {"organization": self._organization(request), "productSlug": slug, "metric": metric}

            def report() -> None:
                event["quantity"] = quantity(request) if callable(quantity) else quantity
                self._reporter.report(event)

            request.scope[AFTER].append(report)

        return meter

    @asynccontextmanager
    async def with_limit(self, request: Request, slug: str, metric: str, units: float, **more: Any) -> AsyncIterator[Hold]:
        """Holds units for the block, then settles `hold.used`; an exception releases them. `more`: `subject`, …"""
        organization = self._organization(request)
        client = self._client.for_organization(organization)
        event: Any = {"productSlug": slug, "metric": metric, "quantity": units, **more}
        event.setdefault("idempotencyKey", str(uuid.uuid4()))
        hold = Hold(await run_in_threadpool(client.hold, event))
        id = hold.reservation["id"]
        try:
            yield hold
        except BaseException:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(client.release, id)
            raise
        used = units if hold.used is None else hold.used
        try:
            hold.settlement = await run_in_threadpool(client.settle, id, used)
        except GaugeError:
            # The spool sends it later. The reservation's key prevents double counting if the settlement did arrive.
            event.pop("ttlSeconds", None)
            event |= {"organization": organization, "quantity": used}
            await run_in_threadpool(self._reporter.report, event)


def organization_of(request: Request) -> str:
    key: VerifiedKey | None = request.scope.get(KEY)
    if key is None or key["organization"] is None:
        raise RuntimeError("The Organization is unknown: let verify_key run first, or set organization.")
    return key["organization"]
