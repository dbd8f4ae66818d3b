from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional, Union

# Status, body and headers; None closes the connection without an answer.
Answer = Optional[tuple[int, Union[dict[str, Any], bytes], dict[str, str]]]


class Request:
    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.at = time.monotonic()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def keys(self) -> list[str]:
        return [event["idempotencyKey"] for event in self.json["events"]]


class FakeService:
    """A stand-in for the service that misbehaves as a test asks."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.recorded: dict[str, dict[str, Any]] = {}
        self.connections = 0
        # Returns the answer to send instead of the service's normal one, or False for the normal one.
        self.fault: Callable[[Request, int], Union[Answer, bool]] = lambda _request, _count: False
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                service.connections += 1

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                request = Request(self.command, self.path, dict(self.headers), body)
                service.requests.append(request)
                answer = service.fault(request, len(service.requests))
                if answer is False:
                    answer = service.record(request)
                if not isinstance(answer, tuple):
                    self.close_connection = True
                    return
                status, content, headers = answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def record(self, request: Request) -> Answer:
        events = request.json["events"]
        rejected = [
            {"index": i, "code": "entitlement_required", "detail": "none"}
            for i, event in enumerate(events)
            if event["productSlug"] == "unknown"
        ]
        good = [event for event in events if event["productSlug"] != "unknown"]
        fresh = [event for event in good if event["idempotencyKey"] not in self.recorded]
        self.recorded.update({event["idempotencyKey"]: event for event in good})
        answer = {"accepted": len(fresh), "deduped": len(good) - len(fresh), "warnings": [], "rejected": rejected}
        return 202, answer, {}

    def record_many(self, request: Request, statuses: dict[str, int]) -> Answer:
        """Answers for many Organizations as the service does; `statuses` has those whose events are not recorded."""
        events = request.json["events"]
        refused: list[dict[str, Any]] = []
        for slug in dict.fromkeys(event["organization"] for event in events):
            if slug in statuses:
                index = [event["organization"] for event in events].index(slug)
                reason = {"code": f"code_{statuses[slug]}", "detail": f"said {statuses[slug]}"}
                place = {"index": index, "pointer": f"/events/{index}/organization", **reason}
                refused.append({"organization": slug, "status": statuses[slug], **reason, "errors": [place]})
        good = [event for event in events if event["organization"] not in statuses]
        if not good:
            return refused[0]["status"], refused[0], {}
        keys = {f"{event['organization']} {event['idempotencyKey']}": event for event in good}
        fresh = [key for key in keys if key not in self.recorded]
        self.recorded.update(keys)
        answer = {"accepted": len(fresh), "deduped": len(good) - len(fresh), "warnings": [], "rejected": [], "refused": refused}
        return 202, answer, {}

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def reply(status: int, body: Union[dict[str, Any], bytes], headers: Optional[dict[str, str]] = None) -> Answer:
    return status, body, headers or {}


def problem(status: int, code: str, headers: Optional[dict[str, str]] = None, **more: Any) -> Answer:
    return reply(status, {"status": status, "code": code, "detail": f"said {code}", "requestId": "r", **more}, headers)
