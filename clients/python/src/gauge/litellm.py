"""Budgets for LiteLLM: each call reserves the most that it may use, and settles what it used."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic
from typing import Any, Literal, final

import litellm
from litellm.integrations.custom_logger import CustomLogger

from .client import GaugeClient
from .errors import GaugeError, RefusedError, Refusal, to_answer
from .reporter import Reporter

# The parameter that limits the output, by the name of LiteLLM's function or route. Embeddings have none.
MAXIMUM = {
    **dict.fromkeys(("completion", "acompletion", "text_completion", "atext_completion"), "max_tokens"),
    **dict.fromkeys(("responses", "aresponses"), "max_output_tokens"),
    "anthropic_messages": "max_tokens",
    **dict.fromkeys(("embedding", "embeddings", "aembedding"), None),
}
TEXTS = ("delta", "text", "content", "reasoning_content", "thinking", "arguments", "partial_json")
ID = "gauge_call"

log = logging.getLogger("gauge")


@dataclass
class Call:
    organization: str
    subject: str | None
    request: dict[str, Any]
    most_output: int | None
    """None for embeddings."""
    key: str = field(default_factory=lambda: str(uuid.uuid4()))
    began_at: float = field(default_factory=monotonic)
    input: int = 0
    """An estimate."""
    held: Future[str | None] = field(default_factory=Future)
    """The reservation's id, or None if the service was not available."""
    usage: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    rest: bytes = b""
    """The part of a stream after the last complete line."""

    @property
    def model(self) -> str:
        return str(self.request.get("model") or "")

    def read_answer(self, response: Any) -> None:
        """If the answer does not say what it used, all that is held counts as used."""
        held = {"prompt_tokens": self.input, "completion_tokens": self.most_output}
        self.usage = to_dict(to_dict(response).get("usage")) or held

    def read_chunk(self, chunk: Any) -> None:
        """Keeps a chunk's usage and its text, which is counted if no usage follows."""
        for part in self._parts(chunk):
            for holder in (part, part.get("response"), part.get("message")):
                usage = to_dict(to_dict(holder).get("usage"))
                self.usage.update({name: value for name, value in usage.items() if value is not None})
            choices = [choice.get("delta") or choice.get("text") for choice in part.get("choices") or []]
            self.text += text_in("delta", [part.get("delta"), *choices])

    def _parts(self, chunk: Any) -> Iterator[dict[str, Any]]:
        if not isinstance(chunk, (bytes, str)):
            yield to_dict(chunk)
            return
        *lines, self.rest = (self.rest + (chunk.encode() if isinstance(chunk, str) else chunk)).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                try:
                    yield to_dict(json.loads(line[5:]))
                except ValueError:
                    pass

    def tokens(self, is_complete: bool) -> tuple[int, int, int]:
        """Input, cached input and output, estimated where the model did not say."""
        input, cached, output = read_usage(self.usage) if self.usage else (self.input, 0, 0)
        if not is_complete or not self.usage:
            output = max(output, litellm.token_counter(self.model, text=self.text))
        return input, cached, output


class Meter:
    def __init__(
        self,
        base_url: str,
        service_key: str,
        directory: str,
        *,
        product_slug: str = "llm",
        metric: str = "tokens",
        on_unavailable: Literal["refuse", "spool"] = "refuse",
        max_output_tokens: int = 4096,
        ttl_seconds: int = 600,
        dimensions: Callable[[str, str], dict[str, str]] = lambda model, kind: {"model": model, "kind": kind},
        timeout: float = 5.0,
        allow_http: bool = False,
    ) -> None:
        """
        service_key: Needs the scope `usage:write`.
        directory: Folder on a local disk for usage that waits to be sent.
        on_unavailable: If Gauge cannot be reached before a call: `refuse` it, or let it pass and `spool` its usage.
        max_output_tokens: For calls that name no maximum. They get it as theirs, so that none uses more than it holds.
        ttl_seconds: How long a call's tokens are held at most, if the program is killed.
        dimensions: Returns the event's dimensions for a model and a kind: `input`, `cached_input` or `output`.
        timeout: Seconds to wait for each of two attempts.
        """
        options: dict[str, Any] = {"service_key": service_key, "allow_http": allow_http}
        self._client = GaugeClient(base_url, timeout=timeout, attempts=2, **options)
        self._reporter = Reporter(base_url, directory=directory, **options)
        self._what = {"productSlug": product_slug, "metric": metric}
        self._is_spooling = on_unavailable == "spool"
        self._max_output_tokens, self._ttl_seconds, self._dimensions = max_output_tokens, ttl_seconds, dimensions
        self._threads = ThreadPoolExecutor(32, "gauge")

    async def _begin(self, name: str, organization: str, subject: str | None, request: dict[str, Any]) -> Call:
        """Reserves. Raises `GaugeError` if the call must not be made."""
        maximum = MAXIMUM[name]
        most = None if maximum is None else limit_output(request, maximum, self._max_output_tokens)
        call = Call(organization, subject, request, most)
        call.held = self._threads.submit(self._hold, call)
        try:
            await asyncio.wrap_future(call.held)
        except asyncio.CancelledError:
            self._threads.submit(self._release, call)
            raise
        return call

    async def _end(self, call: Call, is_complete: bool) -> None:
        """Waits, so that an answer ends only after its usage is recorded or on disk, whoever cancels the wait."""
        is_used = is_complete or bool(call.usage or call.text)
        job = self._threads.submit(self._settle, call, is_complete) if is_used else self._threads.submit(self._release, call)
        await asyncio.shield(asyncio.wrap_future(job))

    async def _watch(self, call: Call, stream: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        is_complete = False
        try:
            async for chunk in stream:
                call.read_chunk(chunk)
                yield chunk
            is_complete = True
        finally:
            await self._end(call, is_complete)

    def _hold(self, call: Call) -> str | None:
        call.input = count_input(call.request)
        event = self._event(call, "input" if call.most_output is None else "output", call.input + (call.most_output or 0))
        try:
            client = self._client.for_organization(call.organization)
            return client.hold(event | {"ttlSeconds": self._ttl_seconds})["id"]
        except GaugeError as error:
            status = error.problem["status"] if isinstance(error, RefusedError) else 503
            if not self._is_spooling or (status < 500 and status != 429):
                raise
            log.warning("Gauge is not available, so a call passes without a reservation: %s", error)
            return None

    def _settle(self, call: Call, is_complete: bool) -> None:
        input, cached, output = call.tokens(is_complete)
        if call.most_output is None:
            events, last = [], self._event(call, "input", input + cached)
        else:
            kinds = {"input": input, "cached_input": cached}
            events = [self._event(call, kind, units) for kind, units in kinds.items() if units > 0]
            last = self._event(call, "output", output)
        id = call.held.result()
        try:
            if id is not None:
                client = self._client.for_organization(call.organization)
                if events:
                    client.send(events)
                client.settle(id, last["quantity"])
                return
        except GaugeError as error:
            log.warning("Usage waits in the spool: %s", error)
        # The keys prevent double counting of what did arrive.
        for event in [*events, last]:
            try:
                self._reporter.report(event | {"organization": call.organization})
            except Exception:
                log.exception("Usage is lost: %s", event)

    def _release(self, call: Call) -> None:
        try:
            id = call.held.result()
        except BaseException:
            return
        if id is not None:
            self._client.for_organization(call.organization).release(id)

    def _event(self, call: Call, kind: str, units: int) -> Any:
        is_last = kind == "output" or call.most_output is None
        key = call.key if is_last else f"{call.key}:{kind}"
        event = {**self._what, "quantity": units, "idempotencyKey": key, "subject": call.subject}
        return {**event, "dimensions": self._dimensions(call.model, kind)}


@final
class GaugeProxy(Meter, CustomLogger):
    """A callback for the LiteLLM proxy, which ignores hooks that a subclass inherits."""

    def __init__(
        self,
        *settings: str,
        organization: Callable[[Any, dict[str, Any]], str | None] | None = None,
        subject: Callable[[Any, dict[str, Any]], str | None] | None = None,
        **more: Any,
    ) -> None:
        """Takes the arguments of `Meter`, and functions of LiteLLM's `UserAPIKeyAuth` and the request.

        organization: Default: `gauge_organization` in the metadata of the team or, without one, of the key.
        subject: Default: the end user.
        """
        Meter.__init__(self, *settings, **more)
        CustomLogger.__init__(self)
        self._organization = organization or organization_of
        self._subject = subject or (lambda auth, data: auth.end_user_id or data.get("user"))
        self._calls: dict[str, Call] = {}

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: Any) -> Any:
        from fastapi import HTTPException

        if call_type not in MAXIMUM:
            return data
        # Another callback may have rejected a first attempt with another model.
        await self._drop(data)
        try:
            organization = self._organization(user_api_key_dict, data)
            if organization is None:
                detail = "Neither the team nor the key has gauge_organization in its metadata."
                raise Refusal("entitlement_required", detail)
            call = await self._begin(call_type, organization, self._subject(user_api_key_dict, data), data)
        except GaugeError as error:
            refusal = to_answer(error)
            status = 429 if refusal.status == 409 else refusal.status
            problem = {**refusal.problem, "status": status, "title": HTTPStatus(status).phrase}
            raise HTTPException(status, {"error": refusal.problem["detail"], **problem}, refusal.headers) from error
        # LiteLLM may end a call without any of the other hooks.
        while self._calls and (oldest := next(iter(self._calls.values()))).began_at < monotonic() - 86_400:
            del self._calls[oldest.key]
        self._calls[call.key] = call
        metadata_of(data)[ID] = call.key
        return data

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
        call = self._take(data)
        if call is not None:
            call.read_answer(response)
            await self._end(call, True)
        return response

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        call = self._take(request_data)
        async with aclosing(response if call is None else self._watch(call, response)) as stream:
            async for chunk in stream:
                yield chunk

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, *_: Any, **__: Any
    ) -> None:
        await self._drop(request_data)

    def _take(self, data: dict[str, Any]) -> Call | None:
        return self._calls.pop(str(metadata_of(data).get(ID)), None)

    async def _drop(self, data: dict[str, Any]) -> None:
        call = self._take(data)
        if call is not None:
            await self._end(call, False)


class GaugeLibrary(Meter):
    """Makes LiteLLM's calls within a program."""

    async def call(
        self, name: str, organization: str, subject: str | None = None, *, target: Any = litellm, **request: Any
    ) -> Any:
        """Calls a function of LiteLLM, such as `acompletion`, or of `target`, such as a router.

        Raises `RefusedError` if there is no room, and `DeliveryError` if Gauge is down and `on_unavailable` is `refuse`.
        """
        if name not in MAXIMUM:
            raise ValueError(f"name must be one of {', '.join(MAXIMUM)}.")
        if request.get("stream") and name == "acompletion":
            request["stream_options"] = {**(request.get("stream_options") or {}), "include_usage": True}
        call = await self._begin(name, organization, subject, request)
        try:
            response = await getattr(target, name)(**request)
        except BaseException:
            await self._end(call, False)
            raise
        if hasattr(response, "__aiter__"):
            return self._watch(call, response)
        call.read_answer(response)
        await self._end(call, True)
        return response


def limit_output(request: dict[str, Any], name: str, default: int) -> int:
    """The most output that the request allows, which it states from now on."""
    names = ("max_tokens", "max_completion_tokens") if name == "max_tokens" else (name,)
    if not any(request.get(one) for one in names):
        request[name] = default
    most = answers = 1
    for source in (request, request.get("extra_body")):
        if not isinstance(source, dict):
            continue
        for one in names:
            if source.get(one) is not None:
                source[one] = source[one] if is_count(source[one]) else default
                most = max(most, source[one])
        answers = max([answers, *(source[one] for one in ("n", "best_of") if is_count(source.get(one)))])
    return most * answers


def is_count(value: object) -> bool:
    return isinstance(value, int) and value > 0 and value is not True


def count_input(request: dict[str, Any]) -> int:
    """Estimates generously: the fields count as JSON, and an image or a file as 1,500 tokens."""
    names = ("messages", "input", "prompt", "system", "instructions", "tools", "response_format", "text")
    text = json.dumps([request[name] for name in names if request.get(name) is not None], default=str)
    text, files = re.subn(r"[\w+/=-]{2000,}", "", text)
    return litellm.token_counter(str(request.get("model") or ""), text=text) + 1500 * files


def read_usage(usage: dict[str, Any]) -> tuple[int, int, int]:
    """Input without cached input, cached input, and output."""
    input = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    output = usage.get("completion_tokens") or usage.get("output_tokens") or 0
    details = to_dict(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    if "prompt_tokens" in usage or details:
        cached = min(details.get("cached_tokens") or 0, input)
        return input - cached, cached, output
    # Anthropic's input excludes what was written to the cache and read from it.
    return input + (usage.get("cache_creation_input_tokens") or 0), usage.get("cache_read_input_tokens") or 0, output


def to_dict(value: Any) -> dict[str, Any]:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, dict) else {}


def text_in(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value if name in TEXTS else ""
    items = value.items() if isinstance(value, dict) else [(name, one) for one in value] if isinstance(value, list) else []
    return "".join(text_in(inner, item) for inner, item in items)


def metadata_of(data: dict[str, Any]) -> dict[str, Any]:
    """LiteLLM's own metadata of a request, which no model gets."""
    name = "litellm_metadata" if "litellm_metadata" in data else "metadata"
    metadata = data[name] = to_dict(data.get(name))
    return metadata


def organization_of(auth: Any, _: dict[str, Any]) -> str | None:
    """The team's comes first, because its members may be able to set the metadata of their keys."""
    for metadata in (auth.team_metadata, auth.metadata):
        if isinstance(metadata, dict) and isinstance(metadata.get("gauge_organization"), str):
            return str(metadata["gauge_organization"])
    return None
