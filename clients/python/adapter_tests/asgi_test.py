from __future__ import annotations

import asyncio
import tempfile
import unittest
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from gauge.asgi import Gauge, GaugeMiddleware
from gauge.types import VerifiedKey

from .service import (
    API_KEY,
    FOR_10_TOKENS,
    OTHER_KEY,
    PRODUCT,
    REVOKED_KEY,
    SERVICE_KEY,
    SLUG,
    URL,
    Gate,
    count_held,
    sums,
    until,
)


def make_fastapi(gauge: Gauge) -> FastAPI:
    app = FastAPI()
    app.add_middleware(GaugeMiddleware)
    verify = gauge.verify_key()

    @app.get("/key")
    async def key(key: VerifiedKey = Depends(verify)) -> Any:
        return key["organization"]

    @app.get("/scoped", dependencies=[Depends(gauge.verify_key("usage:read"))])
    async def scoped() -> None:
        pass

    @app.get("/entitled/{name}", dependencies=[Depends(gauge.verify_key(product_slug=PRODUCT))])
    async def entitled() -> None:
        pass

    metered = [Depends(verify), Depends(gauge.meter(PRODUCT, "tokens", lambda request: request.state.tokens))]

    @app.post("/metered/{tokens}", dependencies=metered)
    async def meter(request: Request, tokens: int) -> Any:
        request.state.tokens = tokens
        if tokens == 500:
            return JSONResponse({}, 500)
        return StreamingResponse(stream(tokens))

    @app.post("/limited/{used}", dependencies=[Depends(verify)])
    async def limited(request: Request, used: int) -> Any:
        async with gauge.with_limit(request, FOR_10_TOKENS, "tokens", 1) as hold:
            hold.used = used
        return hold.settlement and hold.settlement["reservation"]["settledQuantity"]

    return app


async def stream(count: int) -> AsyncIterator[str]:
    for i in range(count):
        yield f"{i}\n"


def make_starlette(gauge: Gauge) -> Starlette:
    verify, require = gauge.verify_key(), gauge.require_entitlement(PRODUCT)
    require_room = gauge.require_entitlement(FOR_10_TOKENS, 11)

    async def check(request: Request) -> JSONResponse:
        key = await verify(request)
        await (require_room if "room" in request.query_params else require)(request)
        await gauge.meter(PRODUCT, "tokens", 7)(request)
        return JSONResponse(key["organization"])

    return Starlette(routes=[Route("/check", check)], middleware=[Middleware(GaugeMiddleware)])


class AsgiTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def make(self, url: str = URL, key: str = SERVICE_KEY, **more: Any) -> Gauge:
        gauge = Gauge(url, key, f"{self.folder.name}/{uuid.uuid4()}", **more)
        self.addCleanup(gauge.close)
        return gauge

    async def call(self, app: Any, method: str, path: str, secret: str | None = API_KEY, **more: Any) -> httpx.Response:
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            return await client.request(method, path, headers=headers, **more)

    def assert_problem(self, response: httpx.Response, status: int, code: str) -> dict[str, Any]:
        self.assertEqual((response.status_code, response.json().get("code")), (status, code))
        self.assertEqual(response.headers["content-type"], "application/problem+json; charset=utf-8")
        self.assertEqual(response.headers["cache-control"], "no-store")
        self.assertEqual(response.headers.get("www-authenticate"), "Bearer" if status == 401 else None)
        problem: dict[str, Any] = response.json()
        self.assertEqual((problem["status"], problem["type"]), (status, f"/docs/errors#{code}"))
        return problem

    async def test_a_key_is_accepted_or_refused_as_gauge_itself_would(self) -> None:
        app = make_fastapi(self.make())
        found = await self.call(app, "GET", "/key")
        self.assertEqual((found.status_code, found.json()), (200, SLUG))
        self.assert_problem(await self.call(app, "GET", "/key", None), 401, "missing_key")
        for secret in ("org_live_nothing", "x" * 300, "\x01"):
            self.assert_problem(await self.call(app, "GET", "/key", secret), 401, "invalid_key")
        self.assert_problem(await self.call(app, "GET", "/key", REVOKED_KEY), 401, "key_revoked")
        self.assert_problem(await self.call(app, "GET", "/scoped"), 403, "insufficient_scope")
        self.assertEqual((await self.call(app, "GET", "/entitled/x")).status_code, 200)
        self.assert_problem(await self.call(app, "GET", "/entitled/x", OTHER_KEY), 403, "entitlement_required")

    async def test_usage_is_counted_after_the_response_unless_it_failed(self) -> None:
        gauge = self.make()
        app = make_fastapi(gauge)
        before = sums(PRODUCT).get("None", 0)
        for tokens in (3, 500, 5):
            await self.call(app, "POST", f"/metered/{tokens}")
        self.assertTrue(gauge.close())
        self.assertEqual(sums(PRODUCT).get("None", 0) - before, 8)

    async def test_parallel_calls_never_pass_a_limit_and_the_refusal_says_what_is_left(self) -> None:
        app = make_fastapi(self.make())
        answers = await asyncio.gather(*(self.call(app, "POST", "/limited/1") for _ in range(25)))
        self.assertEqual([one.json() for one in answers if one.status_code == 200], [1] * 10)
        refused = [one for one in answers if one.status_code != 200]
        self.assertEqual(len(refused), 15)
        for one in refused:
            self.assertEqual(self.assert_problem(one, 409, "limit_reached")["limit"]["remaining"], 0)
        self.assertEqual(count_held(FOR_10_TOKENS), 0)

    async def test_an_exception_releases_the_hold(self) -> None:
        gauge = self.make()
        app = FastAPI()
        app.add_middleware(GaugeMiddleware)
        before = count_held(PRODUCT)
        during: list[int] = []

        @app.post("/", dependencies=[Depends(gauge.verify_key())])
        async def fail(request: Request) -> None:
            async with gauge.with_limit(request, PRODUCT, "tokens", 4):
                during.append(count_held(PRODUCT))
                raise ZeroDivisionError

        self.assertEqual((await self.call(app, "POST", "/")).status_code, 500)
        self.assertEqual((during, count_held(PRODUCT)), ([before + 1], before))

    async def test_a_settlement_that_cannot_be_delivered_waits_in_the_spool_and_is_counted_once(self) -> None:
        gate = Gate()
        self.addCleanup(gate.stop)
        gauge = self.make(gate.url)
        app = FastAPI()
        app.add_middleware(GaugeMiddleware)
        subject = str(uuid.uuid4())

        @app.post("/", dependencies=[Depends(gauge.verify_key())])
        async def work(request: Request) -> None:
            async with gauge.with_limit(request, PRODUCT, "tokens", 40, subject=subject) as hold:
                hold.used = 30
                gate.close()

        self.assertEqual((await self.call(app, "POST", "/")).status_code, 200)
        gate.open()
        self.assertEqual(until(lambda: sums(PRODUCT, subject=subject)), {"None": 30})

    async def test_a_program_with_a_wrong_key_or_without_gauge_answers_503_and_hides_why(self) -> None:
        for gauge in (self.make(key="service_live_" + "0" * 32), self.make("http://127.0.0.1:9")):
            response = await self.call(make_fastapi(gauge), "GET", "/key")
            problem = self.assert_problem(response, 503, "unavailable")
            self.assertEqual(problem["detail"], "Usage cannot be checked at the moment.")
            self.assertEqual(response.headers["retry-after"], "1")

    async def test_starlette_awaits_the_same_functions(self) -> None:
        gauge = self.make()
        app = make_starlette(gauge)
        before = sums(PRODUCT).get("None", 0)
        found = await self.call(app, "GET", "/check")
        self.assertEqual((found.status_code, found.json()), (200, SLUG))
        self.assert_problem(await self.call(app, "GET", "/check", OTHER_KEY), 403, "entitlement_required")
        self.assert_problem(await self.call(app, "GET", "/check?room"), 409, "limit_reached")
        self.assertTrue(gauge.close())
        self.assertEqual(sums(PRODUCT).get("None", 0) - before, 7)

    async def test_the_organization_may_come_from_the_programs_own_sign_in(self) -> None:
        gauge = self.make(organization=lambda request: request.headers["x-organization"])
        app = FastAPI(dependencies=[Depends(gauge.require_entitlement(PRODUCT))])
        app.add_middleware(GaugeMiddleware)

        @app.get("/")
        async def nothing() -> None:
            pass

        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            self.assertEqual((await client.get("/", headers={"x-organization": SLUG})).status_code, 200)
            unknown = await client.get("/", headers={"x-organization": "unknown"})
            self.assert_problem(unknown, 503, "unavailable")
