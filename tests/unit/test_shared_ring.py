"""A ring of rows that two mappings of one memory share."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from lav2_hil.shared_ring import SharedRing

ROWS, WIDTH = 5, 3


@pytest.fixture
def memory() -> Iterator[int]:
    fd = SharedRing.allocate("test", ROWS, WIDTH)
    yield fd
    os.close(fd)


def write(ring: SharedRing, *values: float) -> None:
    for value in values:
        ring.next_row()[:] = value
        ring.publish()


def test_the_other_side_reads_what_was_written(memory: int) -> None:
    writer, reader = SharedRing(memory, ROWS, WIDTH), SharedRing(memory, ROWS, WIDTH)
    assert (reader.count, reader.read(0)) == (0, None)
    write(writer, 1.0, 2.0)
    assert reader.count == 2
    assert reader.read(0) == pytest.approx([1.0] * WIDTH)
    assert reader.read(1) == pytest.approx([2.0] * WIDTH)
    assert reader.read(2) is None
    assert reader.read(-1) is None


def test_a_row_is_not_there_before_it_is_published(memory: int) -> None:
    writer, reader = SharedRing(memory, ROWS, WIDTH), SharedRing(memory, ROWS, WIDTH)
    writer.next_row()[:] = 1.0
    assert reader.read(0) is None


def test_what_was_read_is_a_copy(memory: int) -> None:
    writer, reader = SharedRing(memory, ROWS, WIDTH), SharedRing(memory, ROWS, WIDTH)
    write(writer, 1.0)
    row = reader.read(0)
    assert row is not None
    write(writer, *range(2, 2 + ROWS))
    assert row == pytest.approx([1.0] * WIDTH)


def test_a_row_is_gone_before_its_place_is_written_again(memory: int) -> None:
    writer, reader = SharedRing(memory, ROWS, WIDTH), SharedRing(memory, ROWS, WIDTH)
    write(writer, *range(ROWS))
    assert reader.read(0) is None  # the next row goes there, and may be half written
    assert reader.read(1) is not None
    write(writer, ROWS)
    assert reader.read(1) is None
    assert np.array_equal(reader.read(ROWS), [ROWS] * WIDTH)


def test_the_descriptor_may_be_closed() -> None:
    fd = SharedRing.allocate("test", ROWS, WIDTH)
    writer, reader = SharedRing(fd, ROWS, WIDTH), SharedRing(fd, ROWS, WIDTH)
    os.close(fd)
    write(writer, 1.0)
    assert reader.read(0) == pytest.approx([1.0] * WIDTH)
