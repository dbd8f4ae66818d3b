from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from unittest import mock

from gauge import ReportedEvent, RefusedEvent, Reporter, SpoolFullError
from gauge.types import UsageEventOfMany

from .fake import Answer, FakeService, Request, problem, reply
from .values import BAD_NUMBERS, EXACT, NATIVE, WRITTEN


FAST: dict[str, Any] = {"interval": 0.005}


def event(key: str | None = None, product: str = "calls", **more: Any) -> ReportedEvent:
    given = {} if key is None else {"idempotencyKey": key}
    return cast(ReportedEvent, {"productSlug": product, "metric": "calls", **given, **more})


def away(_request: Request, _count: int) -> Answer:
    return None


def until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 20
    while not is_so():
        if time.monotonic() > give_up_at:
            raise AssertionError("It did not happen within 20 seconds.")
        time.sleep(0.005)


class ReporterTest(unittest.TestCase):
    def setUp(self) -> None:
        self.service = FakeService()
        self.addCleanup(self.service.stop)
        self.directory = Path(tempfile.mkdtemp(prefix="gauge-reporter-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        logging.getLogger("gauge").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("gauge").setLevel, logging.NOTSET)

    def start(self, **options: Any) -> Reporter:
        reporter = Reporter(self.service.url, "org_live_key", self.directory, **{**FAST, **options})
        self.addCleanup(reporter.close, 0)
        return reporter

    def lines(self) -> list[Any]:
        db = sqlite3.connect(self.directory / "spool.db")
        try:
            return [json.loads(line) for (line,) in db.execute("select line from lines order by id")]
        finally:
            db.close()

    def aside(self) -> list[Any]:
        return [json.loads(line) for line in (self.directory / "refused.ndjson").read_text().splitlines()]

    def test_an_event_is_on_disk_once_report_returns_with_a_key_and_the_time_of_the_report(self) -> None:
        self.service.fault = away
        reporter = self.start(interval=60)
        before = datetime.now(timezone.utc)
        reported = reporter.report(event())
        self.assertEqual(self.lines(), [reported])
        self.assertRegex(reported["idempotencyKey"], "^[0-9a-f-]{36}$")
        at = datetime.fromisoformat(reported["occurredAt"].replace("Z", "+00:00"))
        self.assertTrue(before <= at <= datetime.now(timezone.utc))
        own = event("mine", quantity=0, occurredAt="2026-01-31T12:00:00Z")
        self.assertEqual(reporter.report(own), own)

    def test_the_spool_is_not_readable_by_others(self) -> None:
        shutil.rmtree(self.directory)
        self.start().report(event())
        self.assertEqual(stat.S_IMODE(self.directory.stat().st_mode), 0o700)
        for path in self.directory.iterdir():
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600, path)

    def test_everything_is_sent_in_batches_of_at_most_500_and_nothing_is_left_behind(self) -> None:
        reporter = self.start(interval=0.2)
        keys = [f"key {i}" for i in range(2_345)]

        def report(part: list[str]) -> None:
            for key in part:
                reporter.report(event(key))

        threads = [threading.Thread(target=report, args=(keys[i::8],)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(reporter.flush())
        self.assertEqual(sorted(self.service.recorded), sorted(keys))
        self.assertEqual(sum(len(request.keys) for request in self.service.requests), len(keys))
        self.assertLessEqual(max(len(request.keys) for request in self.service.requests), 500)
        self.assertEqual((reporter.bytes, self.lines()), (0, []))

    def test_events_are_kept_across_restarts_while_the_service_is_away(self) -> None:
        self.service.fault = away
        first = self.start()
        first.report(event("a"))
        self.assertFalse(first.close(timeout=0.05))
        with self.assertRaisesRegex(RuntimeError, "closed"):
            first.report(event("late"))
        second = self.start()
        second.report(event("b"))
        self.assertGreater(second.bytes, 100)
        self.service.fault = lambda _request, _count: False
        self.assertTrue(second.flush())
        self.assertEqual(list(self.service.recorded), ["a", "b"])

    def test_requests_without_an_answer_are_repeated_and_retry_after_is_honoured(self) -> None:
        reasons: list[str] = []
        answers = [None, problem(500, "internal"), problem(503, "unavailable", {"retry-after": "1"})]
        self.service.fault = lambda _request, count: answers[count - 1] if count <= 3 else False
        reporter = self.start(on_retry=lambda reason, _seconds: reasons.append(reason))
        reporter.report(event("a"))
        self.assertTrue(reporter.flush())
        requests = self.service.requests
        self.assertEqual([request.keys for request in requests], [["a"]] * 4)
        self.assertGreater(requests[3].at - requests[2].at, 0.99)
        self.assertIn("500 internal", reasons[1])
        self.assertEqual(len(reasons), 3)

    def test_refused_events_are_set_aside_and_reported_and_the_others_are_sent(self) -> None:
        refused: list[RefusedEvent] = []

        def fault(request: Request, _count: int) -> Answer | bool:
            if "broken" not in request.keys:
                return False
            index = request.keys.index("broken")
            place = {"index": index, "pointer": f"/events/{index}/metric", "code": "invalid_request", "detail": "is bad"}
            return problem(400, "invalid_request", errors=[place])

        self.service.fault = fault
        reporter = self.start(on_refused=refused.extend, interval=0.2)
        for one in [event("a"), event("broken"), event("b", "unknown"), event("c")]:
            reporter.report(one)
        self.assertTrue(reporter.flush())
        self.assertEqual(list(self.service.recorded), ["a", "c"])
        until(lambda: len(refused) == 2)
        found = [(one.code, one.detail, one.event and one.event["idempotencyKey"]) for one in refused]
        expected = [("invalid_request", "metric is bad", "broken"), ("entitlement_required", "none", "b")]
        self.assertEqual(found, expected)
        kept = [(one["code"], one["detail"], one["event"]["idempotencyKey"]) for one in self.aside()]
        self.assertEqual(kept, expected)
        self.assertEqual(self.lines(), [])

    def test_a_batch_that_is_refused_as_a_whole_is_halved(self) -> None:
        refused: list[RefusedEvent] = []
        self.service.fault = lambda request, _count: problem(413, "body_too_large") if "big" in request.keys else False
        reporter = self.start(on_refused=refused.extend, interval=0.2)
        for key in ["a", "b", "big", "c", "d"]:
            reporter.report(event(key))
        self.assertTrue(reporter.flush())
        until(lambda: len(refused) == 1)
        self.assertEqual(list(self.service.recorded), ["a", "b", "c", "d"])

    def test_events_of_the_other_mode_are_refused(self) -> None:
        refused: list[RefusedEvent] = []
        warning = {"code": "duplicate_mismatch", "index": 0, "differs": ["livemode"]}
        self.service.fault = lambda _request, _count: reply(202, {"accepted": 0, "deduped": 1, "warnings": [warning]})
        reporter = self.start(on_refused=refused.extend)
        reporter.report(event("a"))
        self.assertTrue(reporter.flush())
        until(lambda: len(refused) == 1)
        self.assertIn("other mode", refused[0].detail)

    def test_a_refused_key_or_a_foreign_answer_loses_nothing(self) -> None:
        answers: list[tuple[Answer, str]] = [
            (problem(401, "key_revoked"), "401 key_revoked"),
            (reply(200, b"<html>"), "Is base_url a Gauge service"),
            (reply(202, {"accepted": 0, "deduped": 0, "warnings": []}), "does not account for all events"),
            (reply(301, b"", {"location": "https://other.example"}), "has moved"),
        ]
        for answer, message in answers:
            reasons: list[str] = []
            self.service.fault = lambda _request, _count, answer=answer: answer  # type: ignore[misc]
            with mock.patch("gauge.reporter.FIRST_BLOCKED", 0.01):
                reporter = self.start(on_retry=lambda reason, _seconds, reasons=reasons: reasons.append(reason))
                reporter.report(event("a"))
                until(lambda: len(reasons) > 1)
                self.assertIn(message, reasons[0])
                self.assertEqual(len(self.lines()), 1)
                self.service.fault = lambda _request, _count: False
                self.assertTrue(reporter.flush())
                reporter.close()
        self.assertEqual(list(self.service.recorded), ["a"])

    def test_a_full_spool_is_reported_once_accepts_nothing_more_and_accepts_again_once_there_is_space(self) -> None:
        full: list[int] = []
        self.service.fault = away
        reporter = self.start(max_bytes=1_000, on_full=full.append)
        accepted = 0
        for i in range(50):
            try:
                reporter.report(event(f"key {i}"))
                accepted += 1
            except SpoolFullError:
                pass
        self.assertTrue(5 < accepted < 12)
        self.assertEqual(len(full), 1)
        self.assertLessEqual(reporter.bytes, 1_000)
        self.service.fault = lambda _request, _count: False
        self.assertTrue(reporter.flush())
        self.assertEqual(len(self.service.recorded), accepted)
        reporter.report(event("again"))

    def test_the_files_shrink_after_an_outage(self) -> None:
        self.service.fault = away
        reporter = self.start(interval=60)
        spool = reporter._spool
        line = json.dumps(reporter.report(event("x" * 4_000)))
        with spool._change() as db:
            db.executemany("insert into lines (line) values (?)", [(line,) for _ in range(6_000)])
        path = self.directory / "spool.db"
        self.service.fault = lambda _request, _count: False
        self.assertTrue(reporter.close(timeout=60))
        self.assertLess(sum(path.stat().st_size for path in self.directory.iterdir()), 12 * 1024 * 1024)
        self.assertTrue(path.exists())

    def test_the_others_are_sent_if_refused_events_cannot_be_set_aside_and_the_refused_ones_stay(self) -> None:
        (self.directory / "refused.ndjson").mkdir()
        reasons: list[str] = []
        refused: list[RefusedEvent] = []
        with mock.patch("gauge.reporter.FIRST_BLOCKED", 0.05):
            reporter = self.start(
                interval=0.2, on_refused=refused.extend, on_retry=lambda reason, _seconds: reasons.append(reason)
            )
            for key in ["a", "bad1", "b", "bad2"]:
                reporter.report(event(key, "unknown" if "bad" in key else "calls"))
            self.assertFalse(reporter.flush(timeout=0.5))
            until(lambda: list(self.service.recorded) == ["a", "b"] and len(reasons) > 0)
            self.assertRegex(reasons[0], "[Dd]irectory")
            self.assertEqual([line["idempotencyKey"] for line in self.lines()], ["bad1", "bad2"])
            (self.directory / "refused.ndjson").rmdir()
            self.assertTrue(reporter.flush())
        until(lambda: len(refused) == 2)
        self.assertEqual(len(self.aside()), 2)
        self.assertEqual(reporter.bytes, 0)

    def test_the_newest_refused_events_are_kept(self) -> None:
        with mock.patch("gauge.spool.MAX_REFUSED_BYTES", 1_000):
            reporter = self.start()
            for i in range(20):
                reporter.report(event(f"bad {i}", "unknown"))
                self.assertTrue(reporter.flush())
        names = sorted(path.name for path in self.directory.glob("refused*"))
        self.assertIn("refused.1.ndjson", names)
        self.assertLess(sum((self.directory / name).stat().st_size for name in names), 3_000)
        newest = max(names, key=lambda name: (self.directory / name).stat().st_mtime_ns)
        self.assertIn("bad 19", (self.directory / newest).read_text())

    def test_impossible_events_are_refused_at_once(self) -> None:
        reporter = self.start()
        for bad in BAD_NUMBERS:
            with self.assertRaisesRegex(ValueError, "^quantity "):
                reporter.report(event("a", quantity=bad))
        for value in (True, "3", object()):
            with self.assertRaisesRegex(TypeError, "^quantity "):
                reporter.report(event("a", quantity=value))
        with self.assertRaisesRegex(ValueError, "^occurredAt is 2026-01-31 12:00:00 without a time zone"):
            reporter.report(event("a", occurredAt=datetime(2026, 1, 31, 12)))
        with self.assertRaisesRegex(ValueError, "^dimensions/model is nan"):
            reporter.report(event("a", dimensions={"model": float("nan")}))
        with self.assertRaises(ValueError):
            reporter.report(event("x" * 70_000))
        self.assertEqual(reporter.bytes, 0)
        reporter.report(event("lone surrogate \ud800"))

    def test_the_spool_has_the_values_of_python_programs_exactly(self) -> None:
        self.service.fault = away
        reporter = self.start(interval=60)
        reporter.report(cast(ReportedEvent, NATIVE))
        reporter.report(event(occurredAt=None, idempotencyKey=None, quantity=None))
        db = sqlite3.connect(self.directory / "spool.db")
        self.addCleanup(db.close)
        (first,), (second,) = db.execute("select line from lines order by id")
        self.assertEqual(json.loads(first.replace(EXACT, "0.5")), WRITTEN)
        self.assertEqual(json.loads(second).keys(), {"productSlug", "metric", "occurredAt", "idempotencyKey"})

    def test_refused_events_keep_all_digits(self) -> None:
        refused: list[RefusedEvent] = []
        reporter = self.start(on_refused=refused.extend)
        for quantity in (Decimal(EXACT), 0.1):
            reporter.report(event("a", "unknown", quantity=quantity))
        self.assertTrue(reporter.flush())
        until(lambda: len(refused) == 2)
        self.assertEqual([one.event and one.event.get("quantity") for one in refused], [Decimal(EXACT), 0.1])
        self.assertIn(f'"quantity":{EXACT}', (self.directory / "refused.ndjson").read_text())

    def test_an_event_that_cannot_be_written_is_not_accepted(self) -> None:
        self.service.fault = away
        reporter = self.start(interval=60)
        reporter._spool._db.execute("pragma max_page_count = 1")
        with self.assertRaises(sqlite3.OperationalError):
            for i in range(100):
                reporter.report(event(f"{i} {'x' * 1_000}"))
        accepted = len(self.lines())
        reporter._spool._db.execute("pragma max_page_count = 100000")
        reporter.report(event("again"))
        self.assertEqual(len(self.lines()), accepted + 1)

    def test_a_callback_that_raises_does_not_stop_the_reporter(self) -> None:
        self.service.fault = lambda _request, count: problem(500, "internal") if count == 1 else False

        def fail(*_: object) -> None:
            raise ValueError("in a callback")

        reporter = self.start(on_retry=fail, on_refused=fail)
        reporter.report(event("a", "unknown"))
        reporter.report(event("b"))
        self.assertTrue(reporter.flush())
        self.assertEqual(list(self.service.recorded), ["b"])

    def test_two_reporters_share_a_directory_and_only_one_sends_at_a_time(self) -> None:
        first, second = self.start(), self.start()
        for i in range(200):
            (first if i % 2 else second).report(event(f"key {i}"))
        self.assertTrue(first.flush() and second.flush())
        self.assertEqual(sum(len(request.keys) for request in self.service.requests), 200)
        self.assertEqual(len(self.service.recorded), 200)
        first.close()
        second.report(event("last"))
        self.assertTrue(second.close())
        self.assertIn("last", self.service.recorded)

    def test_closing_does_not_wait_for_a_service_that_hangs(self) -> None:
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        self.service.fault = lambda _request, _count: None if hangs.wait(30) else None
        reporter = self.start()
        reporter.report(event("a"))
        until(lambda: len(self.service.requests) > 0)
        before = time.monotonic()
        with mock.patch("gauge.reporter.FINISH_WITHIN", 0.2):
            self.assertFalse(reporter.close(timeout=0.1))
        self.assertLess(time.monotonic() - before, 5)
        hangs.set()
        self.service.fault = lambda _request, _count: False
        self.assertTrue(self.start().flush())
        self.assertIn("a", self.service.recorded)

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_forked_process_must_create_its_own_reporter(self) -> None:
        reporter = self.start()
        reporter.report(event("parent"))
        code = """
import os, sys
from gauge import Reporter
reporter = Reporter(*sys.argv[1:])
reporter.report({"productSlug": "calls", "metric": "calls", "idempotencyKey": "before"})
if os.fork() == 0:
    try:
        reporter.report({"productSlug": "calls", "metric": "calls", "idempotencyKey": "lost"})
    except RuntimeError as error:
        print(error, flush=True)
    with Reporter(*sys.argv[1:]) as own:
        own.report({"productSlug": "calls", "metric": "calls", "idempotencyKey": "child"})
    sys.exit(0)
print(os.wait()[1], flush=True)
reporter.report({"productSlug": "calls", "metric": "calls", "idempotencyKey": "after"})
"""
        output = self.run_python(code)
        self.assertIn("belongs to the parent process", output)
        self.assertTrue(output.endswith("\n0\n"), output)
        self.assertTrue(reporter.flush())
        self.assertEqual(sorted(self.service.recorded), ["after", "before", "child", "parent"])

    def test_a_program_that_ends_sends_what_it_has_reported(self) -> None:
        code = """
import sys
from gauge import Reporter
Reporter(*sys.argv[1:]).report({"productSlug": "calls", "metric": "calls", "idempotencyKey": "a"})
"""
        self.run_python(code)
        self.assertEqual(list(self.service.recorded), ["a"])

    def run_python(self, code: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", code, self.service.url, "key", str(self.directory)],
            check=True, stdout=subprocess.PIPE, text=True, timeout=60,
        ).stdout  # fmt: skip

    def test_a_reported_event_has_the_fields_of_an_event(self) -> None:
        self.assertEqual(ReportedEvent.__annotations__.keys(), UsageEventOfMany.__annotations__.keys())
        optional = {"idempotencyKey", "organization"}
        self.assertEqual(ReportedEvent.__required_keys__, UsageEventOfMany.__required_keys__ - optional)

    def start_for_many(self, **options: Any) -> Reporter:
        more: dict[str, Any] = {"directory": self.directory, "service_key": "service_live_key", **FAST, **options}
        reporter = Reporter(self.service.url, **more)
        self.addCleanup(reporter.close, 0)
        return reporter

    def test_with_a_service_key_one_reporter_spools_for_many_organizations(self) -> None:
        refused: list[RefusedEvent] = []
        self.service.fault = lambda request, _count: self.service.record_many(request, {"nobody": 404, "other": 403})
        reporter = self.start_for_many(on_refused=refused.extend, interval=0.5)
        for i in range(600):
            reporter.report(event(f"n{i}", organization="nobody"))
        for slug, key in [("acme", "a"), ("globex", "a"), ("other", "c"), ("globex", "d")]:
            reporter.report(event(key, organization=slug))
        self.assertTrue(reporter.flush())
        self.assertEqual(list(self.service.recorded), ["acme a", "globex a", "globex d"])
        until(lambda: len(refused) == 601)
        slugs = [one.event["organization"] for one in refused if one.event]
        self.assertEqual((slugs.count("nobody"), slugs.count("other")), (600, 1))
        self.assertEqual(self.aside()[0]["event"]["organization"], "nobody")
        self.assertEqual({request.path for request in self.service.requests}, {"/service/usage/events"})
        self.assertLess(len(self.service.requests), 100)

    def test_an_organization_that_cannot_be_recorded_at_the_moment_holds_up_no_other(self) -> None:
        reasons: list[str] = []
        statuses = {"slow": 503, "slower": 429}
        self.service.fault = lambda request, _count: self.service.record_many(request, statuses)
        reporter = self.start_for_many(on_retry=lambda reason, _seconds: reasons.append(reason))
        for slug in ("slow", "slower", "acme"):
            reporter.report(event("a", organization=slug))
        until(lambda: "acme a" in self.service.recorded and len(reasons) > 0)
        # Now only events that cannot be recorded wait.
        reporter.report(event("b", organization="acme"))
        until(lambda: "acme b" in self.service.recorded)
        self.assertIn("code_503: said 503", reasons[0])
        self.assertFalse(reporter.flush(timeout=0.05))
        statuses.clear()
        self.assertTrue(reporter.flush())
        self.assertEqual(sorted(self.service.recorded), ["acme a", "acme b", "slow a", "slower a"])
        self.assertFalse((self.directory / "refused.ndjson").exists())

    def test_a_service_key_that_is_revoked_between_two_parts_loses_nothing(self) -> None:
        reasons: list[str] = []
        statuses = {"late": 401}
        self.service.fault = lambda request, _count: self.service.record_many(request, statuses)
        reporter = self.start_for_many(on_retry=lambda reason, _seconds: reasons.append(reason))
        for slug in ("acme", "late"):
            reporter.report(event("a", organization=slug))
        until(lambda: len(reasons) > 0)
        self.assertEqual(reasons[0], "said 401 (401 code_401)")
        statuses.clear()
        self.assertTrue(reporter.flush())
        self.assertEqual(sorted(self.service.recorded), ["acme a", "late a"])

    def test_a_key_or_an_organization_that_is_missing_or_too_much_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "organization needs a service_key"):
            self.start().report(event("a", organization="acme"))
        many = self.start_for_many()
        missing: list[dict[str, Any]] = [{}, {"organization": None}]
        for named in missing:
            with self.assertRaisesRegex(ValueError, "organization is missing"):
                many.report(event("a", **named))
        self.assertEqual(many.bytes, 0)
        for keys in ({}, {"api_key": "a", "service_key": "b"}):
            with self.assertRaisesRegex(ValueError, "api_key or service_key"):
                Reporter(self.service.url, directory=self.directory, **cast(Any, keys))
        with self.assertRaisesRegex(ValueError, "directory is missing"):
            Reporter(self.service.url, "key")

    def test_events_wait_for_others_for_the_interval(self) -> None:
        reporter = self.start(interval=60)
        for _ in range(100):
            reporter.report(event())
        self.assertEqual(self.service.requests, [])
        self.assertTrue(reporter.flush())
        self.assertEqual([len(request.keys) for request in self.service.requests], [100])

    def test_events_keep_the_time_of_their_report(self) -> None:
        self.service.fault = away
        first = self.start()
        reported = first.report(event("a"))
        first.close(timeout=0)
        self.service.fault = lambda _request, _count: False
        with mock.patch("gauge.reporter.now", lambda: str(datetime.now(timezone.utc) + timedelta(days=1))):
            self.assertTrue(self.start().flush())
        self.assertEqual(self.service.recorded["a"]["occurredAt"], reported["occurredAt"])
