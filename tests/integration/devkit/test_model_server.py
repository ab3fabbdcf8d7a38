"""The real model answers, with several slots, and its gauges are there."""

import pytest
from openai import OpenAI

pytestmark = pytest.mark.model


def test_the_model_answers_the_same_question_with_the_same_text(model: str) -> None:
    with OpenAI(base_url=f"{model}/v1", api_key="none") as client:
        answers = {
            client.chat.completions.create(
                model="smollm2",
                messages=[{"role": "user", "content": "Explain what a queue is in one sentence."}],
                max_tokens=24,
                temperature=0,
            )
            .choices[0]
            .message.content
            for _ in range(2)
        }
        assert [one.id for one in client.models.list()] == ["smollm2"]
    (answer,) = answers
    assert answer
    assert "queue" in answer
