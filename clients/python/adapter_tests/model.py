"""A model server that speaks OpenAI's and Anthropic's protocols, does what a prompt says, and counts what it answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OPENAI = {"prompt_tokens": 11, "prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens": 7, "total_tokens": 18}
RESPONSES = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 18,
}
ANTHROPIC = {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 7}
# What each answer to a chat, in any of the protocols, counts as.
ONE = {"input": 7, "cached_input": 4, "output": 7}
MESSAGE: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "fake", "content": [], "stop_reason": None}
WORDS = ["one ", "two ", "three ", "four ", "five ", "six ", "seven"]


class FakeModel:
    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answered = 0
        self.broken = 0
        """Requests that got a 500."""
        self.went_on = threading.Event()
        """Until this is set, requests with `wait` in their prompt get no answer, or no more than two words."""
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with model._lock:
                    model.requests.append(request)
                try:
                    self.answer(request, json.dumps(request))
                except OSError:
                    self.close_connection = True

            def answer(self, request: dict[str, Any], prompt: str) -> None:
                if "broken" in self.path or "please fail" in prompt:
                    with model._lock:
                        model.broken += 1
                    return self.send(500, "application/json", b'{"error":{"message":"broken","type":"server_error"}}')
                if not request.get("stream"):
                    if "please wait" in prompt:
                        model.went_on.wait()
                    body = json.dumps(answer_to(self.path)).encode()
                    with model._lock:
                        model.answered += 1
                    return self.send(200, "application/json", body)
                self.send(200, "text/event-stream", None)
                for i, event in enumerate(stream_for(self.path, request)):
                    if i == 4 and "please wait" in prompt:
                        model.went_on.wait()
                    data = event if isinstance(event, str) else json.dumps(event)
                    name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
                    line = f"{name}data: {data}\n\n".encode()
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                with model._lock:
                    model.answered += 1
                self.wfile.write(b"0\r\n\r\n")

            def send(self, status: int, kind: str, body: bytes | None) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                if body is None:
                    self.send_header("transfer-encoding", "chunked")
                else:
                    self.send_header("content-length", str(len(body)))
                self.end_headers()
                if body is not None:
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.went_on.set()
        self._server.shutdown()
        self._server.server_close()


def answer_to(path: str) -> dict[str, Any]:
    text = "".join(WORDS)
    if path.endswith("/embeddings"):
        vector = {"object": "embedding", "index": 0, "embedding": [0.5]}
        return {"object": "list", "data": [vector], "model": "fake", "usage": {"prompt_tokens": 11, "total_tokens": 11}}
    if path.endswith("/responses"):
        content = [{"type": "output_text", "text": text, "annotations": []}]
        message = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": content}
        return to_response("completed", [message], RESPONSES)
    if path.endswith("/messages"):
        return {**MESSAGE, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "usage": ANTHROPIC}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "fake", "choices": [choice], "usage": OPENAI}


def to_response(status: str, output: list[Any], usage: Any) -> dict[str, Any]:
    fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
    more = {"id": "r", "object": "response", "created_at": 1, "model": "fake", "status": status}
    return {**more, **fixed, "output": output, "usage": usage}


def stream_for(path: str, request: dict[str, Any]) -> Iterator[Any]:
    if path.endswith("/responses"):
        place = {"item_id": "m", "output_index": 0, "content_index": 0}
        for i, word in enumerate(WORDS):
            if i == 0:
                yield {"type": "response.created", "sequence_number": 0, "response": to_response("in_progress", [], None)}
            yield {"type": "response.output_text.delta", "sequence_number": i + 1, "delta": word, **place}
        yield {"type": "response.completed", "sequence_number": 9, "response": answer_to(path)}
    elif path.endswith("/messages"):
        yield {"type": "message_start", "message": {**MESSAGE, "usage": {**ANTHROPIC, "output_tokens": 1}}}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for word in WORDS:
            yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}
        yield {"type": "message_stop"}
    else:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
        for word in WORDS:
            delta = {"role": "assistant", "content": word}
            yield {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        if (request.get("stream_options") or {}).get("include_usage"):
            yield {**chunk, "choices": [], "usage": OPENAI}
        yield "[DONE]"
