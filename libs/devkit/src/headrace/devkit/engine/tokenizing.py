"""/tokenize: a text as the numbers of its tokens, four characters each. Called by generating. Pure."""

from zlib import crc32

import orjson

from headrace.devkit.engine.asks import CHARACTERS_A_TOKEN, Reading, chat_prompt, read_fields
from headrace.devkit.engine.refusals import bad

VOCABULARY_SIZE, BEGIN = 128_000, 128_000


def tokenized(body: bytes, reading: Reading) -> bytes:
    """vLLM's answer for a `prompt` or for `messages`. Raises EngineRefusal."""
    fields = read_fields(body, reading.models)
    text = "".join(chat_prompt(fields)) if "messages" in fields else fields.get("prompt")
    if not isinstance(text, str):
        raise bad("1 validation error:\n  prompt: a text", "prompt")
    whole = len(text) - len(text) % CHARACTERS_A_TOKEN
    pieces = [text[at : at + CHARACTERS_A_TOKEN] for at in range(0, whole, CHARACTERS_A_TOKEN)]
    tokens = [BEGIN, *(crc32(piece.encode(errors="surrogatepass")) % VOCABULARY_SIZE for piece in pieces)]
    strings = ["<begin>", *pieces] if fields.get("return_token_strs") else None
    answer = {
        "count": len(tokens),
        "max_model_len": reading.max_model_len,
        "tokens": tokens,
        "token_strs": strings,
    }
    return orjson.dumps(answer)
