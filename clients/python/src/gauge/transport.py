from __future__ import annotations

import http.client
import json
import os
import random
import re
import ssl
import threading
import time
from base64 import b64encode
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass_environment  # type: ignore[attr-defined]

from .errors import DeliveryError

# Everything that a request can raise when no answer arrives.
NO_ANSWER = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Response:
    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        """The body, or None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def retry_after(self) -> float | None:
        """Seconds from `Retry-After`, which is a number or a date (RFC 9110)."""
        value = (self.headers.get("retry-after") or "").strip()
        if value.isdecimal():
            return float(value)
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except (ValueError, TypeError):
            return None

    def foreign(self) -> DeliveryError:
        location = self.headers.get("location")
        if location is None:
            return DeliveryError(f"The service responded with {self.status}. Is base_url a Gauge service?")
        return DeliveryError(f"The service has moved. Set base_url to the address of {location}.")


def one_key(api_key: str | None, service_key: str | None) -> str:
    key = service_key if api_key is None else api_key
    if key is None or None not in (api_key, service_key):
        raise ValueError("Set api_key or service_key, and not both.")
    return key


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or re.fullmatch(r"127(\.\d+){3}", host) is not None


class Transport:
    """Sends requests on kept connections. Threads can share it, and a forked process opens connections of its own.

    It returns redirects instead of following them: following one would send the key elsewhere, or turn a POST into a GET.
    """

    def __init__(self, base_url: str, key: str, timeout: float, allow_http: bool = False) -> None:
        url = urlsplit(base_url)
        if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment or url.username:
            raise ValueError("base_url must be an address such as https://gauge.example.com.")
        if url.scheme == "http" and not allow_http and not is_loopback(url.hostname):
            raise ValueError(
                "base_url must be https, because the key is sent to it. Only this machine may use http."
                " Set allow_http=True to send the key unencrypted."
            )
        # Checked here because the error message from http.client would contain the key.
        if not (key.isascii() and key.isprintable() and key.strip() == key != ""):
            raise ValueError("The key must be the whole secret of a key, without spaces or line breaks around it.")
        self._host, self._port = url.hostname, url.port
        self._prefix = url.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._timeout = timeout
        self._proxy = find_proxy(url.scheme, url.hostname, url.port)
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._pid = os.getpid()

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Response:
        """Raises one of `NO_ANSWER`."""
        all_headers = {**self._headers, **(headers or {})}
        if body is not None:
            all_headers["Content-Type"] = "application/json"
        kept = self._take()
        if kept is not None:
            try:
                return self._exchange(kept, method, path, body, all_headers)
            except (ConnectionError, http.client.BadStatusLine):
                # The service closes idle connections, and a restart closes all of them, so send again on a new
                # connection.
                self.close()
        return self._exchange(self._connect(), method, path, body, all_headers)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        host, port, headers = self._proxy or (self._host, self._port, {})
        if self._tls is None:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port, headers)
        return connection

    def _take(self) -> http.client.HTTPConnection | None:
        if self._pid != os.getpid():
            # The inherited connections belong to the parent process, and one of its threads may have held the lock
            # during the fork.
            self._pid, self._lock = os.getpid(), threading.Lock()
            self.close()
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _exchange(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Response:
        try:
            connection.request(method, self._prefix + path, body, headers)
            answer = connection.getresponse()
            response = Response(answer.status, answer.headers, answer.read())
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return response


def find_proxy(scheme: str, host: str, port: int | None = None) -> tuple[str, int | None, dict[str, str]] | None:
    """
    The host, port and headers of the proxy that HTTP_PROXY or HTTPS_PROXY names, unless NO_PROXY has the host. Like the
    service, uses HTTP_PROXY for https if HTTPS_PROXY is not set.
    """
    proxies = getproxies()
    address = proxies.get(scheme) or proxies.get("http")
    # urllib knows `.example.com`, but not `*.example.com`.
    direct = {"no": proxies.get("no", "").replace("*.", ".")}
    default_port = 443 if scheme == "https" else 80
    if (
        not address
        or host in ("localhost", "127.0.0.1", "::1")
        or proxy_bypass_environment(f"{host}:{port or default_port}", direct)
    ):
        return None
    url = urlsplit(address if "://" in address else f"http://{address}")
    if not url.hostname:
        raise ValueError(f"{scheme.upper()}_PROXY must be an address such as http://proxy.example.com:3128.")
    if url.username is None:
        return url.hostname, url.port or 80, {}
    credentials = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return url.hostname, url.port or 80, {"Proxy-Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


def backoff(first: float, failures: int, longest: float) -> float:
    """Exponential backoff with a random factor between 0.5 and 1, so that senders do not retry in step."""
    return min(first * 2.0 ** min(failures, 20), longest) * (0.5 + random.random() / 2)
