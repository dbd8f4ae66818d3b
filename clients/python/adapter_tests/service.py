"""The service that `test/client/python-adapters.process.test.ts` starts, and a gate in front of it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, TypeVar

from gauge import GaugeClient

URL = os.environ.get("GAUGE_URL", "")
SERVICE_KEY = os.environ.get("GAUGE_SERVICE_KEY", "")
SLUG = os.environ.get("GAUGE_ORGANIZATION", "")
API_KEY = os.environ.get("GAUGE_API_KEY", "")
REVOKED_KEY = os.environ.get("GAUGE_REVOKED_KEY", "")
# A key of an Organization without entitlements.
OTHER_KEY = os.environ.get("GAUGE_OTHER_KEY", "")
# All with the metric `tokens`. The others have blocking limits: for each subject, or for the Organization.
PRODUCT = os.environ.get("GAUGE_PRODUCT", "")
FOR_40_CALLS = os.environ.get("GAUGE_PRODUCT_FOR_40", "")
FOR_10_TOKENS = os.environ.get("GAUGE_PRODUCT_FOR_10", "")

client = GaugeClient(URL, service_key=SERVICE_KEY).for_organization(SLUG) if URL else None
T = TypeVar("T")


def sums(product: str, **filters: str) -> dict[str, float]:
    """Usage by kind or, with a subject, under the name None."""
    assert client is not None
    today = date.today()
    start, end = today - timedelta(days=2), today + timedelta(days=2)
    by: Any = filters if "subject" in filters else {"group_by": "kind", "dimensions": filters}
    series = client.usage(start, end, product_slug=product, **by)["series"]
    return {str(one.get("dimensions", {}).get("kind")): one["total"] for one in series if one["total"]}


def count_held(product: str) -> int:
    assert client is not None
    return sum(one["productSlug"] == product for one in client.reservations("held"))


def until(look: Callable[[], T], seconds: float = 120) -> T:
    """Waits until the result is true, and returns it."""
    give_up_at = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > give_up_at:
            raise AssertionError(f"This has not happened within {seconds} s.")
        time.sleep(0.02)
    return found


class Gate:
    """Forwards connections to the service while it is open; closing breaks all of them."""

    def __init__(self) -> None:
        self.is_open = True
        self._sockets: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.is_open = False
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._sockets.clear()

    def open(self) -> None:
        self.is_open = True

    def stop(self) -> None:
        self.close()
        self._server.close()

    def _accept(self) -> None:
        host, _, port = URL.removeprefix("http://").partition(":")
        while True:
            try:
                one, _address = self._server.accept()
            except OSError:
                return
            if not self.is_open:
                one.close()
                continue
            other = socket.create_connection((host, int(port)))
            self._sockets += [one, other]
            for source, target in ((one, other), (other, one)):
                threading.Thread(target=forward, args=(source, target), daemon=True).start()


def forward(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for one in (source, target):
        one.close()
