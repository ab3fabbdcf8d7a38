"""Bytes to and from an engine over HTTP, for its own tests."""

from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"


def chat(text: str = "hello", **more: object) -> dict[str, Any]:
    return {"model": "fake", "messages": [{"role": "user", "content": text}], **more}


@dataclass(frozen=True)
class Got:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """Data lines of a stream: JSON as values, [DONE] and what isn't JSON as text. Comments are left out."""
        assert self.body.endswith(b"\n\n"), self.body
        lines = [line for line in self.body.split(b"\n\n") if line.startswith(b"data: ")]
        return [_value(line.removeprefix(b"data: ")) for line in lines]

    @property
    def text(self) -> str:
        """What was said, plain or streamed."""
        if self.body.startswith(b"{"):
            (choice,) = self.json["choices"]
            return str(choice["message"]["content"] if "message" in choice else choice["text"])
        chunks = [
            event["choices"][0] for event in self.events if isinstance(event, dict) and event["choices"]
        ]
        return "".join(
            chunk["delta"].get("content", "") if "delta" in chunk else chunk["text"] for chunk in chunks
        )


def _value(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return line.decode()


async def post(http: aiohttp.ClientSession, body: object, path: str = CHAT, **headers: str) -> Got:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with http.post(path, data=orjson.dumps(body), headers=named) as response:
        return Got(response.status, dict(response.headers), await response.read())


async def get(http: aiohttp.ClientSession, path: str) -> Got:
    async with http.get(path) as response:
        return Got(response.status, dict(response.headers), await response.read())
