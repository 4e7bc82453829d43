"""`interleave` and `flat_map`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from typing_extensions import override

from mirrax.data.nodes.buffered import BufferedStream, PrefetchStream
from mirrax.data.plan import columns as cols
from mirrax.data.plan.columns import Columns
from mirrax.data.plan.node import UNKNOWN, Epoch, Node, SourceNode
from mirrax.data.plan.seeds import Seeded, seed_unseeded
from mirrax.data.plan.streams import (
    DelayingStream,
    State,
    Stream,
    as_count,
    position_error,
)
from mirrax.data.plan.user_functions import UserErrors, call_with_element
from mirrax.data.thread_pool import Pool


@dataclasses.dataclass(frozen=True, eq=False)
class Interleave(SourceNode, Seeded):
    """Interleaves the datasets that a function returns for each element.

    Args:
        block_length: How many consecutive elements each contributes.
        seed: The seed of unseeded nodes that `function` returns.
        num_threads: How many datasets are read in advance; 0 for none.
    """

    is_expensive = True
    cardinality = UNKNOWN
    is_unseeded = True

    function: Callable[..., Node]
    cycle_length: int
    block_length: int
    seed: int = dataclasses.field(repr=False)
    num_threads: int = 0

    @override
    def open(self, epoch: Epoch) -> Stream:
        return _InterleaveStream(self, epoch)

    @functools.cached_property
    @override
    def spec(self) -> Any:
        first = self.first()
        return None if first is None else first.spec

    def first(self) -> Node | None:
        stream = self.source.open((0,))
        columns = stream.take(1)
        return None if columns is None else self.make(stream, columns, 0)

    def make(self, stream: Stream, columns: Columns, number: int) -> Node:
        """Returns the node of the element with a number."""
        row = cols.rows_of(columns)[0]
        with UserErrors("interleave` or `flat_map", number):
            node: Node = call_with_element(self.function, stream.structure, row)
        return seed_unseeded(node, (self.seed, number))


@dataclasses.dataclass(frozen=True)
class _Slot:
    """One of the interleaved datasets.

    Args:
        before: The source's position before the dataset's element.
    """

    before: State
    number: int
    stream: BufferedStream

    def state(self) -> State:
        return [self.before, self.number, self.stream.state()]


class _InterleaveStream(DelayingStream):
    def __init__(self, node: Interleave, epoch: Epoch) -> None:
        self._node = node
        self._epoch = epoch
        self._source = node.source.open(epoch)
        self._pool = Pool(self, node.num_threads) if node.num_threads > 1 else None
        self._slots: list[_Slot] = []
        self._num_made = 0
        self._turn = 0
        self._given = 0

    @override
    def _take(self, limit: int) -> Columns | None:
        pieces = self._until_error(self._pieces(limit))
        return cols.concatenate(pieces) if pieces else None

    @override
    def state(self) -> State:
        return {
            "source": self._source.state(),
            "made": self._num_made,
            "turn": [self._turn, self._given],
            "slots": [slot.state() for slot in self._slots],
        }

    @override
    def restore(self, state: State) -> None:
        self._slots = [self._restored_slot(slot) for slot in state["slots"]]
        self._source.restore(state["source"])
        self._num_made = as_count(state["made"])
        turn, given = state["turn"]
        self._turn = as_count(turn, max(len(self._slots) - 1, 0))
        self._given = as_count(given, self._node.block_length - 1)

    def _pieces(self, limit: int) -> Iterator[Columns]:
        try:
            while limit and (piece := self._next_piece(limit)) is not None:
                limit -= cols.num_rows(piece)
                yield piece
        except Exception:
            self._close()
            raise

    def _next_piece(self, limit: int) -> Columns | None:
        self._fill()
        while self._slots:
            if not self._given and len(self._slots) > 1:
                rounds = self._take_rounds(limit)
                if rounds is not None:
                    return rounds
            slot = self._slots[self._turn]
            wanted = min(limit, self._node.block_length - self._given)
            columns = slot.stream.take(wanted)
            if columns is not None:
                self.structure = slot.stream.structure
                self._given += cols.num_rows(columns)
                if self._given == self._node.block_length:
                    self._advance()
                return columns
            self._replace()
        self._close()
        return None

    def _take_rounds(self, limit: int) -> Columns | None:
        """Returns complete rounds of blocks, if all datasets have buffered one."""
        slots = self._slots[self._turn :] + self._slots[: self._turn]
        streams = [slot.stream for slot in slots]
        block = self._node.block_length
        count = limit // (len(streams) * block)
        if count:
            count = min(count, min(map(_fill_before_error, streams)) // block)
        if not count:
            return None
        self.structure = streams[0].structure
        taken = cols.concatenate([s.take_buffered(count * block) for s in streams])
        places = np.arange(cols.num_rows(taken)).reshape(len(streams), count, block)
        return cols.select(taken, places.swapaxes(0, 1).ravel())

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _fill(self) -> None:
        if self._num_made:
            return
        while len(self._slots) < self._node.cycle_length:
            slot = self._next_slot()
            if slot is None:
                return
            self._slots.append(slot)

    def _replace(self) -> None:
        slot = self._next_slot()
        if slot is not None:
            self._slots[self._turn] = slot
            self._advance()
            return
        del self._slots[self._turn]
        self._turn = self._turn % max(len(self._slots), 1)
        self._given = 0

    def _advance(self) -> None:
        self._turn = (self._turn + 1) % len(self._slots)
        self._given = 0

    def _next_slot(self) -> _Slot | None:
        before = self._source.state()
        columns = self._source.take(1)
        if columns is None:
            return None
        node = self._node.make(self._source, columns, self._num_made)
        slot = self._open_slot(node, before, self._num_made)
        self._num_made += 1
        if isinstance(slot.stream, PrefetchStream):
            slot.stream.start()
        return slot

    def _restored_slot(self, state: State) -> _Slot:
        before, number, inner = state
        number = as_count(number)
        source = self._node.source.open(self._epoch)
        source.restore(before)
        columns = source.take(1)
        if columns is None:
            raise position_error(number + 1, number)
        slot = self._open_slot(self._node.make(source, columns, number), before, number)
        slot.stream.restore(inner)
        return slot

    def _open_slot(self, node: Node, before: State, number: int) -> _Slot:
        stream = node.open(self._epoch)
        self.chunk = max(self.chunk, stream.chunk)
        size = max(self._node.block_length, stream.chunk)
        if self._pool is None:
            return _Slot(before, number, BufferedStream(stream, size=size))
        return _Slot(before, number, PrefetchStream(stream, 0, size, self._pool))


def _fill_before_error(stream: BufferedStream) -> int:
    try:
        return stream.fill()
    except Exception:
        return 0
