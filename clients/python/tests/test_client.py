from __future__ import annotations

import http.client
import json
import os
import unittest
from datetime import date, datetime, timezone
from decimal import Decimal
from email.utils import formatdate
from typing import Any, cast
from unittest import mock

from gauge import DeliveryError, GaugeClient, OtherModeError, RefusedError
from gauge.transport import find_proxy
from gauge.types import ReservationInput, UsageEvent, UsageEventOfMany

from .fake import Answer, FakeService, Request, problem, reply
from .values import BAD_NUMBERS, EXACT, KEY, NATIVE, REGION, SUBJECT, WRITTEN


def event(key: str, **more: Any) -> UsageEvent:
    return cast(UsageEvent, {"productSlug": "calls", "metric": "calls", "idempotencyKey": key, **more})


EVENT = event("a")


class WithService(unittest.TestCase):
    def setUp(self) -> None:
        self.service = FakeService()
        self.addCleanup(self.service.stop)
        self.gauge = GaugeClient(self.service.url, "org_live_key")
        self.addCleanup(self.gauge.close)
        sleep = mock.patch("gauge.client.time.sleep")
        self.slept = sleep.start()
        self.addCleanup(sleep.stop)

    def pauses(self) -> list[float]:
        return [call.args[0] for call in self.slept.call_args_list]


class ClientTest(WithService):
    def test_retries_send_the_same_bytes_until_there_is_an_answer(self) -> None:
        answers: list[Answer] = [None, problem(500, "internal"), problem(503, "unavailable"), problem(429, "rate_limited")]
        self.service.fault = lambda _request, count: answers[count - 1] if count <= len(answers) else False
        self.assertEqual(self.gauge.send([EVENT])["accepted"], 1)
        self.assertEqual(len({request.body for request in self.service.requests}), 1)
        self.assertEqual(len(self.service.requests), 5)

    def test_requests_go_through_the_proxy_of_the_environment(self) -> None:
        seen: list[str] = []

        def connect(connection: http.client.HTTPConnection) -> None:
            seen.append(f"{connection.host}:{connection.port}")
            raise ConnectionRefusedError

        environment = {"https_proxy": "http://ada:s%40@proxy.invalid:3128", "no_proxy": "inside.invalid"}
        with mock.patch.dict(os.environ, environment), mock.patch("http.client.HTTPConnection.connect", connect):
            for address in ("https://gauge.invalid", "https://inside.invalid", "https://127.0.0.1:9"):
                with self.assertRaises(DeliveryError):
                    GaugeClient(address, "org_live_key", attempts=1).send([EVENT])
        self.assertEqual(seen, ["proxy.invalid:3128", "inside.invalid:443", "127.0.0.1:9"])

    def test_no_proxy_names_hosts_domains_and_ports(self) -> None:
        for names, is_direct in {
            "": False,
            "a.invalid": True,
            "A.invalid": True,
            "x, a.invalid": True,
            ".invalid": True,
            "*.invalid": True,
            "*": True,
            "a.invalid:443": True,
            "a.invalid:8443": False,
            "b.invalid": False,
        }.items():
            environment = {"https_proxy": "http://proxy.invalid:3128", "no_proxy": names}
            with self.subTest(names), mock.patch.dict(os.environ, environment):
                self.assertEqual(find_proxy("https", "a.invalid") is None, is_direct)

    def test_http_proxy_alone_serves_https_and_https_proxy_alone_does_not_serve_http(self) -> None:
        for name, expected in (("http_proxy", [True, True]), ("https_proxy", [False, True])):
            environment = {"http_proxy": "", "https_proxy": "", "no_proxy": "", name: "http://proxy.invalid:3128"}
            with self.subTest(name), mock.patch.dict(os.environ, environment):
                used = [find_proxy(scheme, "gauge.invalid") is not None for scheme in ("http", "https")]
                self.assertEqual(used, expected)

    def test_pauses_double_and_are_random_between_half_and_all(self) -> None:
        self.service.fault = lambda _request, _count: problem(500, "internal")
        with self.assertRaises(RefusedError):
            self.gauge.send([EVENT])
        self.assertEqual(len(self.pauses()), 5)
        for pause, longest in zip(self.pauses(), [0.5, 1, 2, 4, 8]):
            self.assertTrue(longest / 2 <= pause <= longest, pause)

    def test_retry_after_is_honoured_in_seconds_and_as_a_date(self) -> None:
        date = formatdate(usegmt=True)
        values = ["7", date, "soon"]
        self.service.fault = lambda _request, count: (
            problem(503, "unavailable", {"retry-after": values[count - 1]}) if count <= 3 else False
        )
        self.gauge.send([EVENT])
        self.assertEqual(self.pauses()[0], 7)
        self.assertTrue(0.5 <= self.pauses()[1] <= 2)
        self.assertTrue(1 <= self.pauses()[2] <= 2)

    def test_a_call_does_not_wait_an_hour_but_says_how_long_it_would_have_to(self) -> None:
        self.service.fault = lambda _request, _count: problem(429, "rate_limited", {"retry-after": "3600"})
        with self.assertRaises(RefusedError) as raised:
            self.gauge.send([EVENT])
        self.assertEqual(raised.exception.retry_after, 3600)
        self.assertEqual(self.pauses(), [])

    def test_a_refusal_is_final_and_has_the_problem(self) -> None:
        self.service.fault = lambda _request, _count: problem(401, "key_revoked")
        with self.assertRaises(RefusedError) as raised:
            self.gauge.entitlement("calls")
        self.assertEqual((raised.exception.code, raised.exception.detail), ("key_revoked", "said key_revoked"))
        self.assertEqual(len(self.service.requests), 1)

    def test_one_attempt_fails_at_once(self) -> None:
        self.service.fault = lambda _request, _count: None
        with self.assertRaises(DeliveryError):
            GaugeClient(self.service.url, "key", attempts=1).check(["calls"])
        self.assertEqual(len(self.service.requests), 1)

    def test_redirects_are_not_followed_and_foreign_answers_do_not_count(self) -> None:
        answers: list[tuple[Answer, str]] = [
            ((302, b"", {"location": "https://other.example"}), "Set base_url to the address of https://other.example"),
            ((200, b"<html>", {}), "Is base_url a Gauge service"),
            ((202, {"accepted": 7, "deduped": 0, "warnings": []}, {}), "does not account for all events"),
            ((202, {"hello": "world"}, {}), "does not account for all events"),
            ((404, {"error": "no"}, {}), "responded with 404"),
        ]
        for answer, message in answers:
            self.service.fault = lambda _request, _count, answer=answer: answer  # type: ignore[misc]
            with self.assertRaisesRegex(DeliveryError, message):
                self.gauge.send([EVENT])
        self.assertEqual(len(self.service.requests), len(answers))

    def test_events_of_the_other_mode_raise_with_the_answer(self) -> None:
        warning = {"code": "duplicate_mismatch", "index": 0, "differs": ["livemode"]}
        self.service.fault = lambda _request, _count: reply(202, {"accepted": 0, "deduped": 1, "warnings": [warning]})
        with self.assertRaises(OtherModeError) as raised:
            self.gauge.send([EVENT])
        self.assertEqual(raised.exception.indexes, [0])
        self.assertEqual(raised.exception.answer["deduped"], 1)

    def test_connections_are_kept_and_replaced_if_the_service_closed_them(self) -> None:
        self.gauge.send([EVENT])
        self.gauge.send([EVENT])
        self.assertEqual(self.service.connections, 1)
        # The service closes the kept-alive connection without an answer. The client resends the request on a new
        # connection without a pause.
        self.service.fault = lambda _request, count: None if count == 3 else False
        self.gauge.send([EVENT])
        self.assertEqual((self.service.connections, self.pauses()), (2, []))

    def test_the_key_and_the_base_path_are_in_every_request(self) -> None:
        with GaugeClient(self.service.url + "/gauge/", "org_live_key") as gauge:
            gauge.send([EVENT], lenient=True, dry_run=True)
        (request,) = self.service.requests
        self.assertEqual(request.path, "/gauge/api/usage/events?dryRun=true")
        self.assertEqual(request.headers["Authorization"], "Bearer org_live_key")
        self.assertEqual(request.headers["Prefer"], "handling=lenient")

    def test_names_in_paths_are_escaped(self) -> None:
        self.service.fault = lambda _request, _count: reply(200, {})
        self.gauge.event("a/b?c d#é")
        self.gauge.usage("2026-01-01", "2026-02-01", product_slug="a&b", granularity="hour")
        self.gauge.event(KEY)
        midnight = datetime(2026, 2, 1, tzinfo=timezone.utc)
        self.gauge.usage(date(2026, 1, 1), midnight, subject=SUBJECT, dimensions={"region": REGION, "model": None})
        self.assertEqual(
            [request.path for request in self.service.requests],
            [
                "/api/usage/events/a%2Fb%3Fc%20d%23%C3%A9",
                "/api/usage?from=2026-01-01&to=2026-02-01&productSlug=a%26b&granularity=hour",
                f"/api/usage/events/{KEY}",
                f"/api/usage?from=2026-01-01&to=2026-02-01T00%3A00%3A00.000000Z&subject={SUBJECT}&dimension.region={REGION}",
            ],
        )

    def test_a_service_key_names_the_organization_in_the_address_or_in_each_event(self) -> None:
        gauge = GaugeClient(self.service.url, service_key="service_live_key")
        self.addCleanup(gauge.close)
        gauge.for_organization("acme").send([EVENT])
        gauge.for_organization("a/b").send([EVENT])
        self.assertEqual(
            [request.path for request in self.service.requests],
            ["/service/organizations/acme/usage/events", "/service/organizations/a%2Fb/usage/events"],
        )
        self.service.fault = lambda request, _count: self.service.record_many(request, {"nobody": 404})
        events = [cast(UsageEventOfMany, {**EVENT, "organization": slug}) for slug in ("acme", "nobody", "nobody", "globex")]
        answer = gauge.send_many(events)
        self.assertEqual((answer["accepted"], answer["refused"][0]["organization"]), (2, "nobody"))
        with self.assertRaises(RefusedError) as raised:
            gauge.send_many(events[1:2])
        self.assertEqual(raised.exception.code, "code_404")
        self.service.fault = lambda _request, _count: reply(200, {"valid": True})
        self.assertTrue(gauge.verify({"secret": "org_live_key", "scope": "usage:write"})["valid"])
        request = self.service.requests[-1]
        self.assertEqual((request.path, request.json), ("/service/keys/verify", {"secret": "org_live_key", "scope": "usage:write"}))

    def test_a_call_without_the_key_or_organization_that_it_needs_is_refused_before_it_is_sent(self) -> None:
        many = GaugeClient(self.service.url, service_key="service_live_key")
        self.addCleanup(many.close)
        with self.assertRaisesRegex(ValueError, "needs an Organization"):
            many.entitlement("calls")
        with self.assertRaisesRegex(ValueError, "needs an Organization"):
            many.send([EVENT])
        for slug in ("", ".", ".."):
            with self.assertRaisesRegex(ValueError, "is not the slug"):
                many.for_organization(slug)
        with self.assertRaisesRegex(ValueError, "needs a service_key"):
            self.gauge.for_organization("acme")
        with self.assertRaisesRegex(ValueError, "needs a service_key"):
            self.gauge.verify({"secret": "org_live_key"})
        with self.assertRaisesRegex(ValueError, "needs a service_key"):
            self.gauge.send_many([])
        for keys in ({}, {"api_key": "a", "service_key": "b"}, {"service_key": ""}):
            with self.assertRaises(ValueError):
                GaugeClient(self.service.url, **cast(Any, keys))
        self.assertEqual(self.service.requests, [])

    def test_lists_are_read_page_by_page(self) -> None:
        def pages(request: Request, _count: int) -> Answer:
            is_first = "cursor" not in request.path
            return 200, {"entitlements": [{"productSlug": request.path}], "nextCursor": "x" if is_first else None}, {}

        self.service.fault = pages
        slugs = [one["productSlug"] for one in self.gauge.entitlements()]
        self.assertEqual(slugs, ["/api/entitlements", "/api/entitlements?cursor=x"])

    def test_bad_settings_are_refused_without_showing_the_key(self) -> None:
        bad: list[tuple[str, str]] = [
            ("gauge.example.com", "key"),
            ("ftp://gauge.example.com", "key"),
            ("https://user@gauge.example.com", "key"),
            ("https://gauge.example.com?a=b", "key"),
            ("https://gauge.example.com", ""),
            ("https://gauge.example.com", "s3cret\r\nX: y"),
            ("https://gauge.example.com", "s3cret\n"),
            ("https://gauge.example.com", "s3cret…"),
        ]
        for base_url, api_key in bad:
            with self.assertRaises(ValueError) as raised:
                GaugeClient(base_url, api_key)
            self.assertNotIn("s3cret", str(raised.exception))

    def test_a_number_that_json_does_not_have_is_refused_before_it_is_sent(self) -> None:
        for bad in BAD_NUMBERS[:-1]:
            with self.assertRaisesRegex(ValueError, "^events/1/quantity "):
                self.gauge.send([EVENT, event("a", quantity=bad)])
        with self.assertRaisesRegex(ValueError, "^events/0/occurredAt is .* without a time zone"):
            self.gauge.send([event("a", occurredAt=datetime(2026, 1, 31, 12))])
        with self.assertRaisesRegex(TypeError, "^events/0/occurredAt is of the type date"):
            self.gauge.send([event("a", occurredAt=date(2026, 1, 31))])
        with self.assertRaisesRegex(ValueError, "^The time is .* without a time zone"):
            self.gauge.usage(datetime(2026, 1, 31), "2026-02-01")
        self.assertEqual(self.service.requests, [])

    def test_decimals_times_and_uuids_arrive_exactly_and_none_is_left_out(self) -> None:
        self.gauge.send([NATIVE, event("a", quantity=Decimal("0.1"), subject=None)])
        body = self.service.requests[0].body.decode()
        self.assertEqual(json.loads(body.replace(EXACT, "0.5"))["events"][0], WRITTEN)
        self.assertIn(f'"quantity":{EXACT},', body)
        self.assertTrue(body.endswith('"idempotencyKey":"a","quantity":0.1}]}'), body)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_forked_process_opens_its_own_connection(self) -> None:
        self.gauge.send([EVENT])
        child = os.fork()
        if child == 0:
            try:
                self.gauge.send([event("child")])
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        self.gauge.send([EVENT])
        self.assertEqual(self.service.connections, 2)
        self.assertIn("child", self.service.recorded)


class ReserveTest(WithService):
    WORK: ReservationInput = {"productSlug": "calls", "metric": "calls", "quantity": 8, "idempotencyKey": "work"}

    def setUp(self) -> None:
        super().setUp()
        self.calls: list[tuple[str, str, Any]] = []
        self.lost: list[int] = []

        def answer(request: Request, count: int) -> Answer:
            self.calls.append((request.method, request.path, request.json if request.body else None))
            if count in self.lost:
                return None
            return 200, {"reservation": {"id": "r1", "status": "held"}, "warnings": []}, {}

        self.service.fault = answer

    def test_settles_the_units_used_even_if_answers_are_lost(self) -> None:
        self.lost = [1, 3]
        with self.gauge.reserve(self.WORK) as hold:
            self.assertEqual(hold.reservation["status"], "held")
            hold.used = 3.5
        self.assertEqual(hold.settlement and hold.settlement["warnings"], [])
        reserve = ("POST", "/api/usage/reservations", self.WORK)
        settle = ("POST", "/api/usage/reservations/r1/settle", {"quantity": 3.5})
        self.assertEqual(self.calls, [reserve, reserve, settle, settle])

    def test_settles_what_was_held_if_the_work_does_not_say(self) -> None:
        with self.gauge.reserve(self.WORK):
            pass
        self.assertEqual(self.calls[1], ("POST", "/api/usage/reservations/r1/settle", {}))

    def test_settles_an_exact_quantity(self) -> None:
        work = cast(ReservationInput, {**self.WORK, "quantity": Decimal("0.3"), "subject": None})
        with self.gauge.reserve(work) as hold:
            hold.used = Decimal("0.1")
        self.assertEqual([call[2] for call in self.calls], [{**self.WORK, "quantity": 0.3}, {"quantity": 0.1}])

    def test_settles_zero_units(self) -> None:
        with self.gauge.reserve(self.WORK) as hold:
            hold.used = 0
        self.assertEqual(self.calls[1][2], {"quantity": 0})

    def test_releases_if_the_work_raises_or_is_interrupted(self) -> None:
        for error in (ValueError("away"), KeyboardInterrupt()):
            self.calls.clear()
            with self.assertRaises(type(error)):
                with self.gauge.reserve(self.WORK):
                    raise error
            self.assertEqual(self.calls[1], ("DELETE", "/api/usage/reservations/r1", None))
            self.assertEqual(len(self.calls), 2)

    def test_a_hold_that_cannot_be_released_does_not_hide_the_error(self) -> None:
        self.lost = list(range(2, 9))
        with self.assertRaisesRegex(ValueError, "away"):
            with self.gauge.reserve(self.WORK):
                raise ValueError("away")
        self.assertEqual(self.pauses(), [])

    def test_the_work_does_not_run_without_a_hold(self) -> None:
        self.service.fault = lambda _request, _count: problem(409, "limit_reached", limit={"remaining": 1})
        with self.assertRaises(RefusedError) as raised:
            with self.gauge.reserve(self.WORK):
                self.fail("was run")
        self.assertEqual(raised.exception.problem["limit"], {"remaining": 1})
