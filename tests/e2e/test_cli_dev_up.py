"""`headrace dev up`: one line of curl away from an answer, and nothing left behind."""

import signal
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually


async def test_all_services_in_one_process_answer_a_chat(tmp_path: Path) -> None:
    headrace = CommandLine()
    up = headrace.start("dev", "up", "--bus", "memory", "--json", errors=tmp_path / "errors")
    try:
        assert up.stdout is not None
        line = up.stdout.readline()
        assert line, (tmp_path / "errors").read_text()
        told = msgspec.json.decode(line)
        content = await _ask(told)
        assert len(headrace.left_running()) == 1, "memory mode is one process"
        up.send_signal(signal.SIGINT)
        assert up.wait(20) == 0, (tmp_path / "errors").read_text()
    finally:
        up.kill()
        up.communicate()
    assert content["choices"][0]["message"]["content"]
    eventually(lambda: not headrace.left_running(), "no process left")


async def _ask(told: dict[str, str]) -> Any:
    body = {"model": told["model"], "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
    headers = {"Authorization": f"Bearer {told['key']}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{told['url']}/v1/chat/completions", json=body) as response,
    ):
        content = await response.read()
        assert response.status == 200, content
    return msgspec.json.decode(content)
