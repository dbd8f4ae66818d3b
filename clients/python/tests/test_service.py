"""Calls a real service, whose address and keys are in the environment; `test/client/python.process.test.ts` starts one."""

from __future__ import annotations

import logging
import os
import tempfile
import unittest
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, cast

from gauge import CreditsExhaustedError, GaugeClient, OtherModeError, RefusedError, RefusedEvent, Reporter
from gauge.types import ReservationInput, UsageEvent, UsageEventOfMany

URL = os.environ.get("GAUGE_URL", "")
KEY = os.environ.get("GAUGE_API_KEY", "")
# A product with a blocking limit of 10 `calls` per hour, and one without limits.
LIMITED = os.environ.get("GAUGE_LIMITED_PRODUCT", "")
PRODUCT = os.environ.get("GAUGE_PRODUCT", "")
# A product that costs 1 credit per call and blocks; the Organization of GAUGE_CREDITS_KEY has a grant of 10.
PRICED = os.environ.get("GAUGE_PRICED_PRODUCT", "")
# The Organization of GAUGE_API_KEY, in which GAUGE_SERVICE_KEY has all scopes.
SLUG = os.environ.get("GAUGE_ORGANIZATION", "")


def event(key: str | uuid.UUID, **more: Any) -> UsageEvent:
    return cast(UsageEvent, {"productSlug": PRODUCT, "metric": "calls", "idempotencyKey": key, **more})


def reservation(quantity: float, key: str) -> ReservationInput:
    return {"productSlug": LIMITED, "metric": "calls", "quantity": quantity, "idempotencyKey": key}


@unittest.skipUnless(URL, "GAUGE_URL names no service")
class ServiceTest(unittest.TestCase):
    def setUp(self) -> None:
        self.gauge = GaugeClient(URL, KEY)
        self.addCleanup(self.gauge.close)
        self.key = str(uuid.uuid4())

    def test_events_are_recorded_once_read_and_corrected(self) -> None:
        today = datetime.now(timezone.utc).date()
        # Sums two days, because midnight may pass during the test.
        start, end = str(today), str(today + timedelta(days=2))
        before = self.total(start, end)
        self.assertEqual(self.gauge.send([event(self.key, quantity=2.5)])["accepted"], 1)
        self.assertEqual(self.gauge.send([event(self.key, quantity=2.5)])["deduped"], 1)
        self.assertEqual(self.total(start, end), before + 2.5)
        correction = {"idempotencyKey": self.key, "quantity": 1, "reason": "too many", "correctionKey": self.key}
        self.assertEqual(self.gauge.correct([cast(Any, correction)])["applied"], 1)
        self.assertEqual(self.total(start, end), before + 1)
        self.assertEqual(self.gauge.event(self.key)["corrections"][0]["quantity"], 1)
        found = self.gauge.look_up([self.key, "other"])["results"]
        self.assertEqual([one["recorded"] for one in found], [True, False])

    def total(self, start: str, end: str) -> float:
        return sum(series["total"] for series in self.gauge.usage(start, end, product_slug=PRODUCT)["series"])

    def test_decimals_and_times_are_stored_exactly(self) -> None:
        key, at = uuid.uuid4(), datetime.now(timezone(timedelta(hours=2)))
        self.gauge.send([event(key, quantity=Decimal("0.1"), occurredAt=at)])
        recorded = self.gauge.event(key)
        self.assertEqual((recorded["quantity"], recorded["idempotencyKey"]), (0.1, str(key)))
        self.assertEqual(datetime.fromisoformat(recorded["occurredAt"].replace("Z", "+00:00")), at)

    def test_strict_lenient_and_dry_run(self) -> None:
        mixed = [event(self.key), cast(UsageEvent, {**event("other"), "metric": "unknown"})]
        with self.assertRaises(RefusedError) as raised:
            self.gauge.send(mixed)
        self.assertEqual(raised.exception.code, "unknown_metric")
        answer = self.gauge.send(mixed, lenient=True, dry_run=True)
        self.assertEqual((answer["accepted"], answer["rejected"][0]["index"]), (1, 1))
        self.assertFalse(self.gauge.look_up([self.key])["results"][0]["recorded"])
        self.assertEqual(self.gauge.send(mixed, lenient=True)["accepted"], 1)

    def test_keys_of_the_other_mode_are_found(self) -> None:
        self.gauge.send([event(self.key)])
        with GaugeClient(URL, os.environ["GAUGE_TEST_KEY"]) as gauge, self.assertRaises(OtherModeError) as raised:
            gauge.send([event(self.key), event(f"{self.key} test")])
        self.assertEqual((raised.exception.indexes, raised.exception.answer["accepted"]), ([0], 1))

    def test_checks_entitlements_and_the_key_can_be_read(self) -> None:
        results = self.gauge.check([PRODUCT, {"productSlug": LIMITED, "quantity": 11}, "unknown"])["results"]
        self.assertEqual(
            [(one["allowed"], one["reason"]) for one in results],
            [(True, None), (False, "limit_reached"), (False, "entitlement_required")],
        )
        self.assertEqual({one["productSlug"] for one in self.gauge.entitlements()}, {PRODUCT, LIMITED})
        self.assertEqual(self.gauge.entitlement(LIMITED)["limits"][0]["quantity"], 10)
        self.assertTrue(self.gauge.api_key()["apiKey"]["livemode"])

    def test_a_reservation_settles_what_was_used_and_is_released_by_an_exception(self) -> None:
        with self.gauge.reserve(reservation(8, self.key)) as hold:
            with self.assertRaises(RefusedError) as raised:
                with self.gauge.reserve(reservation(8, f"{self.key} 2")):
                    self.fail("There is no room for this work.")
            self.assertEqual(raised.exception.code, "limit_reached")
            hold.used = 3
        self.assertEqual(self.gauge.reservation(hold.reservation["id"])["settledQuantity"], 3)
        with self.assertRaises(ZeroDivisionError):
            with self.gauge.reserve(reservation(7, f"{self.key} 3")):
                print(1 / 0)
        statuses = [one["status"] for one in self.gauge.reservations()]
        self.assertEqual(statuses, ["released", "settled"])

    def test_credits_burn_are_listed_and_refuse_a_reservation(self) -> None:
        gauge = GaugeClient(URL, os.environ["GAUGE_CREDITS_KEY"])
        self.addCleanup(gauge.close)
        priced = {"productSlug": PRICED, "metric": "calls"}
        first = gauge.send([cast(UsageEvent, {**priced, "quantity": 3, "idempotencyKey": f"{self.key} {i}"}) for i in range(2)])
        self.assertEqual(first["warnings"], [])
        self.assertEqual(gauge.credits()["balance"], 4)
        with self.assertRaises(CreditsExhaustedError) as raised:
            with gauge.reserve(cast(ReservationInput, {**priced, "quantity": 5, "idempotencyKey": self.key})):
                self.fail("There are no credits for this work.")
        self.assertEqual((raised.exception.required, raised.exception.available), (5, 4))
        second = gauge.send([cast(UsageEvent, {**priced, "quantity": 6, "idempotencyKey": f"{self.key} 2"})])
        self.assertEqual([(one["code"], cast(Any, one)["overdraft"]) for one in second["warnings"]], [("credits_overdrawn", 2)])
        burned = sum(one["amount"] for one in gauge.credit_entries(kind="burn", product_slug=PRICED))
        self.assertEqual(burned, 12)
        self.assertEqual(list(gauge.credit_entries(kind="void")), [])

    def test_a_service_key_acts_for_an_organization_and_for_many_and_verifies_keys(self) -> None:
        many = GaugeClient(URL, service_key=os.environ["GAUGE_SERVICE_KEY"])
        self.addCleanup(many.close)
        gauge = many.for_organization(SLUG)
        self.assertEqual(gauge.send([event(self.key)])["accepted"], 1)
        self.assertEqual(self.gauge.send([event(self.key)])["deduped"], 1)
        self.assertEqual(gauge.check([PRODUCT])["results"][0]["allowed"], True)
        names = [(SLUG, self.key), (SLUG, f"{self.key} 2"), ("nobody", self.key)]
        answer = many.send_many([cast(UsageEventOfMany, {**event(key), "organization": slug}) for slug, key in names])
        self.assertEqual((answer["accepted"], answer["deduped"]), (1, 1))
        self.assertEqual([(one["organization"], one["status"]) for one in answer["refused"]], [("nobody", 404)])
        verified = many.verify({"secret": KEY, "scope": "usage:write", "productSlug": PRODUCT})
        self.assertEqual((verified["valid"], verified["organization"]), (True, SLUG))
        self.assertEqual(many.verify({"secret": KEY.swapcase()})["code"], "invalid_key")
        with tempfile.TemporaryDirectory() as directory:
            with Reporter(URL, service_key=os.environ["GAUGE_SERVICE_KEY"], directory=directory) as reporter:
                key = reporter.report({"organization": SLUG, "productSlug": PRODUCT, "metric": "calls"})["idempotencyKey"]
        self.assertTrue(gauge.look_up([key])["results"][0]["recorded"])

    def test_the_reporter_delivers_and_sets_refused_events_aside(self) -> None:
        refused: list[RefusedEvent] = []
        logging.getLogger("gauge").setLevel(logging.CRITICAL)
        with tempfile.TemporaryDirectory() as directory:
            with Reporter(URL, KEY, directory, on_refused=refused.extend) as reporter:
                key = reporter.report({"productSlug": PRODUCT, "metric": "calls"})["idempotencyKey"]
                reporter.report({"productSlug": "unknown", "metric": "calls"})
            self.assertEqual([one.code for one in refused], ["entitlement_required"])
        self.assertTrue(self.gauge.look_up([key])["results"][0]["recorded"])
