"""Lines to paste: one for curl, three for the OpenAI client. Pure; used by `headrace dev up` and the demo."""

from msgspec import json

QUESTION = "What is a mill race?"


def chat_line(url: str, key: str, model: str, question: str = QUESTION) -> str:
    """A curl line that asks one question; works when pasted into a shell."""
    body = json.encode(
        {"model": model, "max_tokens": 24, "messages": [{"role": "user", "content": question}]}
    ).decode()
    return (
        f"curl -sS {url}/v1/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )


def client_lines(url: str, key: str, model: str, question: str = QUESTION) -> list[str]:
    """Three lines of Python for the official OpenAI client, unchanged."""
    message = f'{{"role": "user", "content": "{question}"}}'
    return [
        f'from openai import OpenAI; client = OpenAI(base_url="{url}/v1", api_key="{key}")',
        f'answer = client.chat.completions.create(model="{model}", max_tokens=24, messages=[{message}])',
        "print(answer.choices[0].message.content)",
    ]
