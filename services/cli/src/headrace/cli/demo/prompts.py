"""What the demo asks, for whom and by which door. Pure; called by the demo's run.

Invariant: every tenant asks the same number of prompts in each tier, so that shares can be compared with weights.
"""

from headrace.cli.demo.board import Ask, How

WEIGHTS = {"atlas": 2, "birch": 1, "cedar": 1}
TIERS = ("interactive", "standard")
EACH = 6
"""Prompts of each tenant in each tier."""
MAX_TOKENS = 24
POOL = MODEL = "smollm2"

QUESTIONS = (
    "What is a mill race?",
    "Name three rivers in Europe.",
    "Why is the sky blue?",
    "Write one line about rain.",
    "What does a turbine do?",
    "What is a queue?",
    "Name a fruit that is yellow.",
    "How do fish breathe?",
    "What is the capital of France?",
    "Say hello in Spanish.",
    "What is 2 plus 3?",
    "What makes a fair share fair?",
    "Describe a waterfall.",
    "What is ice made of?",
    "Name a tree with needles.",
    "Why do leaves fall?",
    "What do bees make?",
    "Where do penguins live?",
    "What is a bridge for?",
    "Name two colours of the rainbow.",
    "Why do we sleep?",
    "What is the largest ocean?",
    "What does a clock show?",
    "How is bread made?",
    "Who wrote Romeo and Juliet?",
    "What do plants need to grow?",
    "What is a lighthouse?",
    "Name an animal that can fly.",
    "Why is the sea salty?",
    "What is snow?",
    "What does a teacher do?",
    "Name a musical instrument.",
    "What is a mountain?",
    "Why do birds sing?",
    "What is the Moon?",
    "How does a kettle work?",
)


def asks() -> list[Ask]:
    """All prompts, in the order in which they are sent: tenants and tiers interleaved, doors in turn."""
    hows = (How.STREAM, How.WAIT, How.POLL)
    planned: list[Ask] = []
    for turn in range(EACH):
        for tier in TIERS:
            for place, tenant in enumerate(WEIGHTS):
                number = len(planned) + 1
                how = hows[(turn + place) % len(hows)]
                planned.append(Ask(number, tenant, tier, how, QUESTIONS[(number - 1) % len(QUESTIONS)]))
    return planned
