"""How is a backend asked to go on with a text? Called for an attempt that was handed what was said before.

The one place that knows how each kind of engine is asked (vLLM, SGLang and llama.cpp: the last message, unended; a
completion: behind its prompt). Invariant: every other byte of the caller's body stays; no more tokens are asked for than are
left.
"""

import msgspec

from headrace.inference_worker.decisions.can_it_go_on import CHAT, cap_in
from headrace.inference_worker.json_body import NotAnObjectError, member_of, with_member

_CAPS = ("max_tokens", "max_completion_tokens")


def body_that_goes_on(body: bytes, *, route: str, text: str, tokens: int) -> bytes | None:
    """The body that asks for the rest of an answer of which `text`, so many tokens, is there; None: there is no way, or
    nothing is left to be said. Call only where can_it_go_on said so.
    """
    try:
        cap = cap_in(body)
        if cap is not None and cap <= tokens:
            return None
        for name in _CAPS:
            raw = member_of(body, name)
            if raw is not None and raw != b"null":
                body = with_member(body, name, b"%d" % (msgspec.json.decode(raw, type=int) - tokens))
        return _behind_messages(body, text) if route == CHAT else _behind_prompt(body, text)
    except (NotAnObjectError, msgspec.DecodeError):
        return None


def _behind_messages(body: bytes, text: str) -> bytes | None:
    messages = member_of(body, "messages")
    if messages is None or not messages.endswith(b"]"):
        return None
    last = msgspec.json.encode({"role": "assistant", "content": text})
    body = with_member(body, "messages", messages[:-1] + b"," + last + b"]")
    return with_member(
        with_member(body, "add_generation_prompt", b"false"), "continue_final_message", b"true"
    )


def _behind_prompt(body: bytes, text: str) -> bytes | None:
    raw = member_of(body, "prompt")
    if raw is None:
        return None
    prompt = msgspec.json.decode(raw, type=str)
    return with_member(body, "prompt", msgspec.json.encode(prompt + text))
