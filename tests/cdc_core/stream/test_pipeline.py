"""Stages in a row: order, laziness, errors, reset."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_core.binlog.block import Block
from cdc_core.errors import DecodeError
from cdc_core.stream.pipeline import Pipeline
from tests.support.doubles import block, transaction


class Halves:
    """Makes two blocks of one, writes down what it does; raises at the block that starts at `bad`."""

    def __init__(self, name: str, diary: list[str], bad: int = -1) -> None:
        self._name, self._diary, self._bad = name, diary, bad

    def __repr__(self) -> str:
        return self._name

    def reset(self) -> None:
        self._diary.append(f"{self._name} reset")

    def push(self, block: Block) -> Iterator[Block]:
        middle = len(block.index) // 2
        for low, high in ((0, middle), (middle, len(block.index))):
            start = int(block.index["end"][low - 1]) if low else block.start
            if start == self._bad:
                raise DecodeError("damaged", place=str(start), hint="None.")
            self._diary.append(f"{self._name} {start}")
            yield Block(block.journal_name, start, block.data, block.index[low:high])


def test_a_block_goes_all_the_way_before_the_next_is_made() -> None:
    """So a full ring holds up the stages too, and nothing piles up between them."""
    diary: list[str] = []
    pipeline = Pipeline(Halves("a", diary), Halves("b", diary))

    for piece in pipeline.push(block(transaction(1))):
        diary.append(f"put {piece.start}")

    assert diary == ["a 4", "b 4", "put 4", "b 44", "put 44", "a 84", "b 84", "put 84", "b 124", "put 124"]
    assert repr(pipeline) == "<Pipeline a b>"


def test_what_comes_before_an_error_is_handed_on() -> None:
    """The error comes where its block would."""
    found = Pipeline(Halves("a", []), Halves("b", [], bad=124)).push(block(transaction(1)))

    assert [next(found).start for _ in range(3)] == [4, 44, 84]
    with pytest.raises(DecodeError, match="damaged"):
        next(found)


def test_a_reset_reaches_every_stage() -> None:
    """In their order."""
    diary: list[str] = []

    Pipeline(Halves("a", diary), Halves("b", diary)).reset()

    assert diary == ["a reset", "b reset"]
