from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, TypedDict, cast
from uuid import UUID

from .delivery import Post, Refused, Stopped, deliver_events
from .encode import from_json, to_json, to_plain, to_time
from .errors import DeliveryError, SpoolFullError
from .spool import Spool
from .transport import Transport, one_key

MAX_BATCH = 500
MAX_EVENT_BYTES = 64 * 1024
REQUEST_TIMEOUT = 60.0
# How long close() waits for a request in progress, and how long the flush at program exit may take, in seconds.
FINISH_WITHIN = 5.0
# Shortest and longest pause, in seconds, after an error that only a corrected key or base URL can fix.
FIRST_BLOCKED = 1.0
LONGEST_BLOCKED = 60.0
# If only some events cannot be sent, the others wait no longer.
LONGEST_LEFT = 5.0

log = logging.getLogger("gauge")


class _ReportedEventRequired(TypedDict):
    productSlug: str
    metric: str


class ReportedEvent(_ReportedEventRequired, total=False):
    """An event whose key and time are optional, because the reporter fills them in."""

    quantity: float | Decimal | None
    occurredAt: str | datetime | None
    idempotencyKey: str | UUID | None
    subject: str | UUID | None
    dimensions: dict[str, Any] | None
    organization: str
    """With a service key."""


class _SpooledEventRequired(_ReportedEventRequired):
    occurredAt: str
    idempotencyKey: str


class SpooledEvent(_SpooledEventRequired, total=False):
    """An event as it is on disk."""

    quantity: float | Decimal
    subject: str
    dimensions: dict[str, Any]
    organization: str


@dataclass(frozen=True)
class RefusedEvent:
    event: SpooledEvent | None
    """None if the event was damaged on disk."""
    code: str
    detail: str


class Reporter:
    """Reports usage to a service that may be down, from a process that may crash.

    Threads can share a reporter. Processes can share its directory, each with a reporter created after the fork; one of
    them sends at a time.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        directory: str | os.PathLike[str] = "",
        *,
        service_key: str | None = None,
        max_bytes: int = 256 * 1024 * 1024,
        interval: float = 1.0,
        on_full: Callable[[int], object] | None = None,
        on_refused: Callable[[list[RefusedEvent]], object] | None = None,
        on_retry: Callable[[str, float], object] | None = None,
        allow_http: bool = False,
    ) -> None:
        """
        service_key: Instead of `api_key`: each event names its `organization`.
        directory: Folder on a local disk for events that wait to be sent; it survives restarts.
        max_bytes: Maximum size of the waiting events.
        interval: Seconds that an event waits, so that several are sent together.
        on_full: Called with the waiting bytes when the spool becomes full. `report()` raises until some events have been sent.
        on_refused: Called with events that the service rejected, which `refused.ndjson` keeps. A crash may repeat a call.
        on_retry: Called with the reason and the pause in seconds when nothing could be sent. The reporter retries forever.
        allow_http: Allows http to other machines. The key is then sent unencrypted.
        """
        if not directory:
            raise ValueError("directory is missing.")
        self._is_for_many = service_key is not None
        self._interval = interval
        self._max_bytes = max_bytes
        self._on_full, self._on_refused, self._on_retry = on_full, on_refused, on_retry
        self._is_full = False
        self._is_closing = False
        self._closed: bool | None = None
        self._close_lock = threading.Lock()
        self._wake = threading.Event()
        self._sent = threading.Condition()
        self._stop = threading.Event()
        self._transport = Transport(base_url, one_key(api_key, service_key), REQUEST_TIMEOUT, allow_http)
        path = "/service/usage/events" if self._is_for_many else "/api/usage/events"
        self._post = Post(self._transport, path, self._stop, self._report_retry)
        self._spool = Spool(directory, max_bytes)
        self._thread = threading.Thread(target=self._run, name="gauge-reporter", daemon=True)
        self._thread.start()
        _reporters.add(self)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def report(self, event: ReportedEvent) -> SpooledEvent:
        """Returns once the event is on disk: from then on it is counted exactly once, whatever crashes.

        Raises `SpoolFullError`, an error of the disk or of SQLite, or `ValueError` or `TypeError` for a value that cannot
        be sent; the event was then not accepted.
        """
        if self._is_closing:
            raise RuntimeError("The reporter is closed.")
        complete = complete_event(event)
        if self._is_for_many != ("organization" in complete):
            raise ValueError(
                "organization is missing. With a service_key, each event names its Organization."
                if self._is_for_many
                else "organization needs a service_key. With an api_key, the Organization is its own."
            )
        line = to_json(complete)
        if len(line) > MAX_EVENT_BYTES:
            raise ValueError(f"An event can have at most {MAX_EVENT_BYTES} bytes.")
        try:
            self._spool.append(line)
            self._is_full = False
        except SpoolFullError:
            if not self._is_full:
                self._is_full = True
                self._notify(self._on_full, self._spool.bytes)
            raise
        return complete

    def flush(self, timeout: float = 30.0) -> bool:
        """Sends all events accepted so far. Returns True once all have an answer, or False after `timeout` seconds."""
        give_up_at = time.monotonic() + timeout
        last = self._spool.last
        while True:
            first = self._spool.first
            if first == 0 or first > last:
                return True
            left = give_up_at - time.monotonic()
            if left <= 0:
                return False
            self._wake.set()
            with self._sent:
                # Polls, because the events may be sent by another process, which cannot notify this one.
                self._sent.wait(min(left, 0.05))

    def close(self, timeout: float = 30.0) -> bool:
        """Accepts no more events, flushes, and releases the directory. Remaining events wait for the next start."""
        self._is_closing = True
        with self._close_lock:
            if self._closed is None:
                self._closed = self.flush(timeout)
                self._stop.set()
                self._wake.set()
                self._thread.join(FINISH_WITHIN)
                _reporters.discard(self)
                # A thread that is still waiting for an answer keeps the files open until the program exits.
                if not self._thread.is_alive():
                    self._spool.close()
                    self._transport.close()
            return self._closed

    @property
    def bytes(self) -> int:
        """Size of the waiting events."""
        return self._spool.bytes

    def _run(self) -> None:
        blocked = 0.0
        while True:
            self._wake.wait(self._interval)
            self._wake.clear()
            try:
                if self._stop.wait(blocked):
                    return
                if self._spool.first > 0:
                    with self._spool.sending() as is_sender:
                        if is_sender:
                            self._send_all()
                blocked = 0.0
            except Stopped:
                return
            except Exception as error:
                longest = LONGEST_BLOCKED if isinstance(error, DeliveryError) else LONGEST_LEFT
                blocked = min(blocked * 2, longest) or FIRST_BLOCKED
                log.warning("Usage waits until this is corrected: %s", error)
                self._notify(self._on_retry, str(error), blocked)

    def _send_all(self) -> None:
        """Raises if events cannot be recorded at the moment, or refused ones not set aside.

        They stay in the spool, and the others are sent.
        """
        last = 0
        failure: Exception | None = None
        while batch := self._spool.read(last, MAX_BATCH):
            last = batch[-1][0]
            delivered = deliver_events(self._post, [line for _, line in batch])
            refused, left = delivered.refused, delivered.left
            if left:
                failure = RuntimeError(f"{left[0].code}: {left[0].detail}, for {left[0].line}")
            try:
                self._put_aside(refused)
            except OSError as error:
                failure = error
                refused, left = [], left + refused
            kept = {one.line for one in left}
            self._spool.remove([id for id, line in batch if line not in kept])
            with self._sent:
                self._sent.notify_all()
            if refused:
                log.warning("The service refused %d events, the first with %s.", len(refused), refused[0].code)
                self._notify(self._on_refused, [to_refused_event(one) for one in refused])
        if failure is not None:
            raise failure

    def _put_aside(self, refused: Sequence[Refused]) -> None:
        if refused:
            at = now()
            self._spool.put_aside([to_json({"at": at, **vars(to_refused_event(one))}) for one in refused])

    def _report_retry(self, reason: str, seconds: float) -> None:
        log.info("Usage could not be sent: %s. The next attempt is in %.1f s.", reason, seconds)
        self._notify(self._on_retry, reason, seconds)

    def _notify(self, callback: Callable[..., object] | None, *values: Any) -> None:
        """Calls a callback. Its errors are logged, so that they do not stop the reporter."""
        if callback is None:
            return
        try:
            callback(*values)
        except Exception:
            log.exception("A callback of the reporter failed.")


_reporters: weakref.WeakSet[Reporter] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for reporter in list(_reporters):
        reporter.close(FINISH_WITHIN)


if hasattr(os, "register_at_fork"):
    # Inherited reporters belong to the parent process, which closes them itself.
    os.register_at_fork(after_in_child=_reporters.clear)


def complete_event(event: ReportedEvent) -> SpooledEvent:
    """Fills in a missing time and key. Only the quantity is checked here; the service finds all other errors."""
    plain = to_plain(event)
    quantity = plain.get("quantity", 1)
    if isinstance(quantity, bool) or not isinstance(quantity, (int, float, Decimal)):
        raise TypeError("quantity must be a number.")
    if quantity < 0:
        raise ValueError("quantity must be at least 0.")
    # Without a time, the service would use the time of receipt, which may be days after the event.
    missing = {"occurredAt": now(), "idempotencyKey": str(uuid.uuid4())}
    return cast(SpooledEvent, {**missing, **plain})


def now() -> str:
    return to_time(datetime.now(timezone.utc))


def to_refused_event(refused: Refused) -> RefusedEvent:
    try:
        event = from_json(refused.line)
    except ValueError:
        event = None
    return RefusedEvent(event, refused.code, refused.detail)
