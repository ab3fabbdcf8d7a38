"""How long one step of the engine takes. Called by stepper for each step, and by table for people.

    step = base + sequences * per_sequence + kv_tokens * per_kv_token + prefill_tokens * per_prefill_token

The constants of H100_LLAMA_8B come from the hardware: 16.06 GB of bf16 weights over 3.35 TB/s at 76 % efficiency make
the base, 128 KiB of KV a token over the same memory make per_kv_token, 2 * 8.03e9 FLOP over 989 TFLOP/s at 47 % make
per_prefill_token; per_sequence (sampling, detokenising) is an estimate. Published runs on that pair show 6.5 ms a token
alone and nearly the same at 4, then a bend: the shape this gives.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Four constants in microseconds: of a step, of a sequence in it, of a cached token read, of a token prefilled."""

    base: float = 0.0
    per_sequence: float = 0.0
    per_kv_token: float = 0.0
    per_prefill_token: float = 0.0

    def step_us(self, sequences: int, kv_tokens: int, prefill_tokens: int) -> int:
        """Microseconds that a step takes."""
        return round(
            self.base
            + sequences * self.per_sequence
            + kv_tokens * self.per_kv_token
            + prefill_tokens * self.per_prefill_token
        )

    def times(self, factor: float) -> "LatencyModel":
        """The same shape, slower by `factor`."""
        return LatencyModel(
            self.base * factor,
            self.per_sequence * factor,
            self.per_kv_token * factor,
            self.per_prefill_token * factor,
        )


NO_TIME = LatencyModel()
H100_LLAMA_8B = LatencyModel(base=6300, per_sequence=20, per_kv_token=0.052, per_prefill_token=35)
LLM_D = LatencyModel(base=11_200, per_sequence=800, per_prefill_token=250)
"""llm-d-inference-sim's numbers for the same pair: 12 ms a token alone, twice that at 16, 0.25 ms a prefilled token."""
