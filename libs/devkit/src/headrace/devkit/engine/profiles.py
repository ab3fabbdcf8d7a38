"""What kind of engine is played: its speed and its limits. Chosen by --profile, read by stepper and server.

Invariant: a profile can run any request that it lets in: the KV cache holds at least one of the longest context, and a
step has room for a token of every running sequence.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from headrace.devkit.engine.latency import H100_LLAMA_8B, LLM_D, NO_TIME, LatencyModel

BLOCK = 16
"""Tokens in a block of the KV cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One engine. `kv_blocks` of BLOCK tokens each; `by_priority`: vLLM's --scheduling-policy priority. `whole_prompts`: it
    lets nothing in of which only the first piece fits its cache (vLLM's scheduler_reserve_full_isl).
    """

    name: str
    latency: LatencyModel
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_blocks: int
    max_model_len: int = 32_768
    by_priority: bool = False
    prefix_caching: bool = True
    whole_prompts: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError with a sentence for limits that contradict each other."""
        if min(self.max_num_seqs, self.max_num_batched_tokens, self.kv_blocks, self.max_model_len) < 1:
            raise ValueError(
                "max-num-seqs, max-num-batched-tokens, kv-blocks and max-model-len are at least 1"
            )
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max-num-batched-tokens {self.max_num_batched_tokens} is less than max-num-seqs "
                f"{self.max_num_seqs}: a step must have room for a token of every running sequence"
            )
        if self.max_model_len > self.kv_blocks * BLOCK:
            raise ValueError(
                f"{self.kv_blocks} KV blocks hold {self.kv_blocks * BLOCK} tokens, less than max-model-len "
                f"{self.max_model_len}: give more blocks or a shorter context"
            )

    def paced(self, token: timedelta) -> "Profile":
        """The same engine, each step of which takes `token`, whatever is in it."""
        return replace(self, latency=LatencyModel(base=token / timedelta(microseconds=1)))


INSTANT = Profile(
    name="instant",
    latency=NO_TIME,
    max_num_seqs=1024,
    max_num_batched_tokens=65_536,
    kv_blocks=65_536,
)
H100 = Profile(
    name="h100-llama8b",
    latency=H100_LLAMA_8B,
    max_num_seqs=1024,
    max_num_batched_tokens=8192,
    kv_blocks=25_000,
)
CONSERVATIVE = replace(H100, name="conservative", latency=LLM_D)
TINY = Profile(
    name="tiny",
    latency=H100_LLAMA_8B.times(1 / 20),
    max_num_seqs=8,
    max_num_batched_tokens=512,
    kv_blocks=512,
    max_model_len=4096,
)
PROFILES = {profile.name: profile for profile in (INSTANT, TINY, H100, CONSERVATIVE)}
