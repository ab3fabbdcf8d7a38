"""The demo for programs: one JSON object a line. An Audience; chosen without a terminal, with --once or --json.

Events: preflight, downloading, starting, ready, accepted, answered, failed, summary. Times are ms since the demo's start.
"""

from headrace.cli.curl import chat_line, client_lines
from headrace.cli.demo.board import Board, Row
from headrace.cli.demo.play import Ended, Ready
from headrace.cli.demo.prompts import MODEL
from headrace.cli.demo.score import first_tokens, shares, waits
from headrace.cli.terminal import say_json
from headrace.devkit.preflight import Finding


class Lines:
    """Prints events as they happen."""

    def __init__(self) -> None:
        self._downloading = ""

    def preflight(self, findings: list[Finding]) -> None:
        """What this machine has and lacks."""
        say_json({"event": "preflight", "good": all(one.ok for one in findings), "findings": findings})

    def downloading(self, file_name: str, done: int, total: int) -> None:
        """Once for each file."""
        if file_name != self._downloading:
            self._downloading = file_name
            say_json({"event": "downloading", "file": file_name, "done_bytes": done, "total_bytes": total})

    def starting(self, what: str) -> None:
        """The next thing."""
        say_json({"event": "starting", "what": what})

    def ready(self, ready: Ready) -> None:
        """Everything is up."""
        say_json({"event": "ready", "url": ready.url, "took_ms": _ms(ready.took.total_seconds())})

    def happened(self, kind: str, row: Row) -> None:
        """A prompt was accepted, answered, or failed."""
        ask = row.ask
        told: dict[str, object] = {
            "event": kind,
            "number": ask.number,
            "id": row.request_id,
            "tenant": ask.tenant,
            "tier": ask.tier,
            "how": ask.how,
        }
        if kind == "accepted":
            told["at_ms"] = row.accepted_ms
        elif kind == "answered":
            told |= {
                "at_ms": row.ended_ms,
                "wait_ms": row.waited_ms(0),
                "tokens": row.tokens,
                "text": row.text,
            }
        else:
            told |= {"at_ms": row.ended_ms, "problem": row.problem}
        say_json(told)

    def frame(self, board: Board, now_ms: int) -> None:
        """Nothing: programs get events."""

    def summary(self, board: Board, ready: Ready, ended: Ended) -> None:
        """The end of the prompts."""
        first = ended.first_answer
        say_json(
            {
                "event": "summary",
                "good": ended.good,
                "prompts": len(board.rows),
                "accepted": board.accepted_count,
                "answered": board.answered_count,
                "problems": ended.problems,
                "first_answer_ms": None if first is None else _ms(first.total_seconds()),
                "first_token_ms": first_tokens(board),
                "waits": waits(board),
                "shares": shares(board),
                "curl": chat_line(ready.url, ready.key, MODEL),
                "client": client_lines(ready.url, ready.key, MODEL),
            }
        )

    def stopping(self) -> None:
        """Nothing: it ends by itself."""


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
