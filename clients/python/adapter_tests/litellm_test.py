from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import httpx
from litellm.exceptions import InternalServerError
from litellm.router import Router

from gauge import DeliveryError, RefusedError
from gauge.litellm import GaugeLibrary

from .model import ONE, FakeModel
from .service import FOR_40_CALLS, SERVICE_KEY, SLUG, URL, Gate, count_held, sums, until

HERE = Path(__file__).parent
# All but 960 of the 40,960 tokens that the limit leaves each subject.
ALMOST_ALL = 40_000


class Proxy:
    """The real proxy, as another process."""

    def __init__(self, folder: str, model: FakeModel, **settings: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        defaults = {"GATE_URL": URL, "ON_UNAVAILABLE": "refuse", "TTL": "600", "SPOOL": f"{folder}/{uuid.uuid4()}"}
        addresses = {"MODEL_URL": model.url, "MODEL_V1": f"{model.url}/v1", "MODEL_BROKEN": f"{model.url}/broken/v1"}
        env = {**os.environ, **defaults, **addresses, **settings, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        env |= {"PYTHONPATH": str(HERE.parent / "src"), "LITELLM_MASTER_KEY": f"sk-{secrets.token_hex(32)}"}
        self._log = Path(f"{folder}/{port}.log")
        with self._log.open("w") as log:
            program = "from litellm import run_server; run_server()"
            arguments = ["--config", str(HERE / "proxy/config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
            command = [sys.executable, "-B", "-c", program, *arguments]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)

    def wait(self) -> Proxy:
        until(self._is_up, 600)
        return self

    def _is_up(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(self._log.read_text())
        try:
            return httpx.get(f"{self.url}/health/liveliness").status_code == 200
        except httpx.HTTPError:
            return False

    def post(self, path: str, body: dict[str, Any], key: str = "sk-team") -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, headers={"authorization": f"Bearer {key}"}, timeout=600)

    def chat(self, subject: str, prompt: str = "hello", key: str = "sk-team", **more: Any) -> httpx.Response:
        messages = [{"role": "user", "content": prompt}]
        body = {"model": "chat", "messages": messages, "user": subject, "max_tokens": 1000, **more}
        return self.post("/v1/chat/completions", body, key)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class LiteLLMTest(unittest.TestCase):
    model: ClassVar[FakeModel]
    gate: ClassVar[Gate]
    proxy: ClassVar[Proxy]
    spooling: ClassVar[Proxy]
    wrong: ClassVar[Proxy]

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.model, cls.gate = FakeModel(), Gate()
        cls.addClassCleanup(cls.model.stop)
        cls.addClassCleanup(cls.gate.stop)
        cls.proxy = Proxy(folder.name, cls.model, GATE_URL=cls.gate.url)
        cls.spooling = Proxy(folder.name, cls.model, GATE_URL=cls.gate.url, ON_UNAVAILABLE="spool", TTL="3")
        cls.wrong = Proxy(folder.name, cls.model, GAUGE_SERVICE_KEY="service_live_" + "0" * 32, ON_UNAVAILABLE="spool")
        for one in (cls.proxy, cls.spooling, cls.wrong):
            cls.addClassCleanup(one.stop)
        for one in (cls.proxy, cls.spooling, cls.wrong):
            one.wait()

    def setUp(self) -> None:
        self.subject = str(uuid.uuid4())
        self.model.went_on.clear()
        self.model.broken = 0
        self.gate.open()
        self.before, self.held, self.answered = sums(FOR_40_CALLS), count_held(FOR_40_CALLS), self.model.answered

    def counted(self) -> dict[str, float]:
        after = sums(FOR_40_CALLS)
        return {kind: total - self.before.get(kind, 0) for kind, total in after.items() if total != self.before.get(kind)}

    def assert_counted(self, expected: dict[str, int]) -> None:
        self.assertEqual(self.counted(), expected)
        self.assertEqual(count_held(FOR_40_CALLS), self.held)
        self.assertEqual(sum(sums(FOR_40_CALLS, subject=self.subject).values()), sum(expected.values()))

    def assert_refused(self, response: httpx.Response, status: int, code: str) -> Any:
        self.assertEqual(response.status_code, status, response.text)
        self.assertIn(code, response.text)
        return response.json()["error"]

    def test_of_100_parallel_calls_against_room_for_40_exactly_40_pass(self) -> None:
        def call(_: int) -> httpx.Response:
            response = self.proxy.chat(self.subject, "please wait")
            with lock:
                refused.append(response.status_code)
                # Nothing is settled before all calls are decided, or else it would make room for others.
                if sum(status != 200 for status in refused) + arrived() == 100:
                    self.model.went_on.set()
            return response

        first = len(self.model.requests)
        lock, refused = threading.Lock(), list[int]()
        arrived: Callable[[], int] = lambda: len(self.model.requests) - first
        with ThreadPoolExecutor(100) as threads:
            answers = threads.submit(lambda: list(threads.map(call, range(100))))
            until(lambda: answers.done() or sum(status != 200 for status in refused) + arrived() == 100, 600)
            self.model.went_on.set()
            statuses = [one.status_code for one in answers.result()]
        self.assertEqual((statuses.count(200), statuses.count(429)), (40, 60))
        self.assertEqual(self.model.answered - self.answered, 40)
        self.assert_counted({kind: 40 * units for kind, units in ONE.items()})

    def test_a_call_without_room_gets_429_with_the_code_and_what_is_left(self) -> None:
        self.assertEqual(self.proxy.chat(self.subject).status_code, 200)
        before = len(self.model.requests)
        response = self.proxy.chat(self.subject, max_tokens=41_000)
        error = self.assert_refused(response, 429, "limit_reached")
        self.assertEqual(len(self.model.requests), before)
        problem = error["provider_specific_fields"]
        self.assertEqual((problem["code"], problem["title"]), ("limit_reached", "Too Many Requests"))
        self.assertEqual(problem["limit"]["remaining"], 40_960 - 18)

    def test_each_protocol_counts_once_with_and_without_a_stream(self) -> None:
        chat = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "user": self.subject, "max_tokens": 50}
        bodies: dict[str, dict[str, Any]] = {
            "/v1/chat/completions": chat,
            "/v1/responses": {"model": "chat", "input": "hi", "user": self.subject, "max_output_tokens": 50},
            "/v1/messages": {**chat, "model": "claude", "metadata": {"user_id": self.subject}},
        }
        done = 0
        for path, body in bodies.items():
            for stream in (False, True):
                with self.subTest(path=path, stream=stream):
                    response = self.proxy.post(path, {**body, "stream": stream})
                    done += 1
                    self.assertEqual(response.status_code, 200, response.text)
                    self.assertIn("seven", response.text)
                    self.assert_counted({kind: done * units for kind, units in ONE.items()})

    def test_embeddings_count_as_input(self) -> None:
        response = self.proxy.post("/v1/embeddings", {"model": "embed", "input": "hi", "user": self.subject})
        self.assertEqual(response.status_code, 200, response.text)
        self.assert_counted({"input": 11})

    def test_retries_and_fallbacks_count_once(self) -> None:
        response = self.proxy.chat(self.subject, model="falls back")
        self.assertEqual(response.status_code, 200, response.text)
        self.assertEqual(self.model.broken, 3)
        self.assert_counted(ONE)

    def test_a_model_that_fails_releases_the_hold(self) -> None:
        for stream in (False, True):
            self.assertEqual(self.proxy.chat(self.subject, model="broken", stream=stream).status_code, 500)
            self.assert_counted({})
        self.assertEqual(self.proxy.chat(self.subject, max_tokens=ALMOST_ALL).status_code, 200)

    def test_an_aborted_stream_counts_what_had_arrived_and_frees_the_rest(self) -> None:
        chat = {"model": "chat", "messages": [{"role": "user", "content": "please wait"}], "user": self.subject}
        bodies: dict[str, dict[str, Any]] = {
            "/v1/chat/completions": {**chat, "max_tokens": ALMOST_ALL // 2},
            "/v1/responses": {"model": "chat", "input": "please wait", "user": self.subject},
            "/v1/messages": {**chat, "model": "claude", "max_tokens": 50, "metadata": {"user_id": self.subject}},
        }
        for path, body in bodies.items():
            with self.subTest(path=path):
                before = self.counted()
                headers = {"authorization": "Bearer sk-team"}
                address = f"{self.proxy.url}{path}"
                with httpx.stream("POST", address, json={**body, "stream": True}, headers=headers, timeout=600) as stream:
                    for line in stream.iter_lines():
                        if "two " in line:
                            break
                    self.assertEqual(count_held(FOR_40_CALLS), self.held + 1)
                until(lambda: count_held(FOR_40_CALLS) == self.held)
                counted = {kind: total - before.get(kind, 0) for kind, total in self.counted().items()}
                self.assertIn(counted["output"], range(2, 6))
                self.assertGreater(counted["input"], 3)

    def test_a_call_names_its_maximum_even_if_the_caller_did_not(self) -> None:
        response = self.proxy.chat(self.subject, max_tokens=None)
        self.assertEqual(response.status_code, 200, response.text)
        self.assertEqual(self.model.requests[-1]["max_tokens"], 4096)
        self.assert_refused(self.proxy.chat(self.subject, max_tokens=5, n=9_000), 429, "limit_reached")
        self.assert_refused(self.proxy.chat(self.subject, max_completion_tokens=41_000), 429, "limit_reached")
        self.assert_refused(self.proxy.chat(self.subject, extra_body={"max_tokens": 41_000}), 429, "limit_reached")
        self.assert_refused(self.proxy.chat("x" * 300), 400, "invalid_request")

    def test_the_organization_comes_from_the_team_or_the_key(self) -> None:
        self.assertEqual(self.proxy.chat(self.subject, key="sk-key").status_code, 200)
        self.assert_counted(ONE)
        self.assert_refused(self.proxy.chat(self.subject, key="sk-none"), 403, "entitlement_required")
        self.assert_refused(self.proxy.chat(self.subject, key="sk-nobody"), 503, "unavailable")
        self.assert_counted(ONE)

    def test_a_wrong_key_refuses_each_call_even_with_spool(self) -> None:
        before = len(self.model.requests)
        response = self.wrong.chat(self.subject)
        self.assert_refused(response, 503, "unavailable")
        self.assertEqual(response.headers["retry-after"], "1")
        self.assertEqual(len(self.model.requests), before)

    def test_without_gauge_calls_are_refused_by_default(self) -> None:
        self.gate.close()
        before = len(self.model.requests)
        self.assert_refused(self.proxy.chat(self.subject), 503, "unavailable")
        self.assertEqual(len(self.model.requests), before)
        self.gate.open()
        self.assertEqual(self.proxy.chat(self.subject).status_code, 200)
        self.assert_counted(ONE)

    def test_without_gauge_calls_may_pass_and_are_counted_once_it_is_back(self) -> None:
        self.gate.close()
        for stream in (False, True):
            self.assertEqual(self.spooling.chat(self.subject, stream=stream).status_code, 200)
        self.gate.open()
        until(lambda: self.counted() == {kind: 2 * units for kind, units in ONE.items()})

    def test_usage_is_counted_once_although_gauge_goes_down_during_the_call(self) -> None:
        with ThreadPoolExecutor(1) as threads:
            before = len(self.model.requests)
            answer = threads.submit(self.proxy.chat, self.subject, "please wait")
            until(lambda: len(self.model.requests) > before)
            self.gate.close()
            self.model.went_on.set()
            self.assertEqual(answer.result().status_code, 200)
        self.gate.open()
        until(lambda: self.counted() == ONE)

    def test_z_the_hold_of_a_killed_proxy_expires(self) -> None:
        with ThreadPoolExecutor(1) as threads:
            before = len(self.model.requests)
            answer = threads.submit(self.spooling.chat, self.subject, "please wait", max_tokens=ALMOST_ALL)
            until(lambda: len(self.model.requests) > before)
            self.spooling.stop()
            self.assertIsInstance(answer.exception(), httpx.HTTPError)
        self.assert_refused(self.proxy.chat(self.subject), 429, "limit_reached")
        until(lambda: self.proxy.chat(self.subject, max_tokens=ALMOST_ALL).status_code == 200)


class LibraryTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = FakeModel()
        self.addCleanup(self.model.stop)
        self.subject = str(uuid.uuid4())
        self.folder, self.held = folder.name, count_held(FOR_40_CALLS)

    def make(self, url: str = URL, **more: Any) -> GaugeLibrary:
        spool = f"{self.folder}/{uuid.uuid4()}"
        return GaugeLibrary(url, SERVICE_KEY, spool, product_slug=FOR_40_CALLS, **more)

    async def call(self, gauge: GaugeLibrary, name: str = "acompletion", prompt: str = "hi", **more: Any) -> Any:
        what = {"messages": [{"role": "user", "content": prompt}]} if name == "acompletion" else {"input": prompt}
        server = {"model": "openai/gpt-4o-mini", "api_base": f"{self.model.url}/v1", "api_key": "none", "max_retries": 0}
        return await gauge.call(name, SLUG, self.subject, **{**what, **server, **more})

    def assert_counted(self, total: int) -> None:
        self.assertEqual(sum(sums(FOR_40_CALLS, subject=self.subject).values()), total)
        self.assertEqual(count_held(FOR_40_CALLS), self.held)

    async def test_each_function_counts_once(self) -> None:
        gauge = self.make()
        await self.call(gauge)
        self.assert_counted(18)
        await self.call(gauge, "aresponses")
        self.assert_counted(36)
        await self.call(gauge, "aembedding", model="openai/text-embedding-3-small")
        self.assert_counted(47)
        self.assertEqual(len([one async for one in await self.call(gauge, stream=True)]), 9)
        self.assert_counted(65)
        broken = {"model": "openai/gpt-4o-mini", "api_base": f"{self.model.url}/broken/v1", "api_key": "none"}
        fallback = {"model": "openai/gpt-4o-mini", "api_base": f"{self.model.url}/v1", "api_key": "none"}
        await self.call(gauge, **broken, fallbacks=[fallback])
        self.assert_counted(83)

    async def test_a_router_can_be_the_target(self) -> None:
        params = {"model": "openai/gpt-4o-mini", "api_base": f"{self.model.url}/v1", "api_key": "none"}
        router = Router(model_list=[{"model_name": "chat", "litellm_params": params}])
        messages = [{"role": "user", "content": "hi"}]
        await self.make().call("acompletion", SLUG, self.subject, target=router, model="chat", messages=messages)
        self.assert_counted(18)

    async def test_no_room_raises_and_an_error_or_a_cancelled_call_releases(self) -> None:
        gauge = self.make()
        with self.assertRaises(RefusedError) as raised:
            await self.call(gauge, max_tokens=41_000)
        self.assertEqual(raised.exception.code, "limit_reached")
        with self.assertRaises(InternalServerError):
            await self.call(gauge, prompt="please fail")
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.call(gauge, prompt="please wait"), 2)
        self.assert_counted(0)

    async def test_an_abandoned_stream_frees_its_hold(self) -> None:
        stream = await self.call(self.make(), prompt="please wait", stream=True)
        await anext(stream)
        self.assertEqual(count_held(FOR_40_CALLS), self.held + 1)
        await stream.aclose()
        self.assertEqual(count_held(FOR_40_CALLS), self.held)

    async def test_without_gauge_it_refuses_or_spools(self) -> None:
        with self.assertRaises(DeliveryError):
            await self.call(self.make("http://127.0.0.1:9"))
        self.assertEqual(self.model.requests, [])
        await self.call(self.make("http://127.0.0.1:9", on_unavailable="spool"))
        self.assertEqual(self.model.answered, 1)

    async def test_a_function_without_tokens_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "acompletion"):
            await self.make().call("aimage_generation", SLUG)
