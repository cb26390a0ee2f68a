"""The serial link over a pseudo-terminal: exclusive, clean at the start, and back after the cable was pulled."""

from __future__ import annotations

import asyncio
import os
import pty
import termios
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from link_recorder import Recorder, until

from bridge.transport.serial import SerialTransport
from firmware_profiles.errors import LinkUnavailableError


class Board:
    """A pseudo-terminal: the board's side, and the device that the system shows for it."""

    def __init__(self) -> None:
        self.fd, self._line = pty.openpty()
        tty.setraw(self._line)
        os.set_blocking(self.fd, False)
        self.device = os.ttyname(self._line)

    def read(self) -> bytes:
        try:
            return os.read(self.fd, 65536)
        except BlockingIOError:
            return b""

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._line)

    def pull(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            os.close(self._line)
            self.fd = -1


@pytest.fixture
def boards() -> Iterator[Callable[[], Board]]:
    made: list[Board] = []

    def make() -> Board:
        made.append(Board())
        return made[-1]

    yield make
    for board in made:
        board.pull()


async def test_report_26_a_device_replaced_under_the_same_link_is_opened_again(
    boards: Callable[[], Board], tmp_path: Path
) -> None:
    link = tmp_path / "usb-3D_Robotics_PX4_FMU-if00"
    first = boards()
    link.symlink_to(first.device)
    transport, handler = SerialTransport(str(link)), Recorder()
    await transport.open(handler)
    first.pull()
    link.unlink()
    await until(lambda: len(handler.events) == 2)
    assert transport.write(b"nobody") is False
    second = boards()
    link.symlink_to(second.device)
    await until(lambda: len(handler.events) == 3, timeout_s=2.0)
    assert handler.events == ["up", "down", "up"]
    assert handler.peers == [str(link)] * 2
    assert transport.write(b"ping")
    os.write(second.fd, b"pong")
    await until(lambda: handler.received == b"pong")
    assert second.read() == b"ping"
    await transport.close()


async def test_a_short_name_is_opened_again_by_id(boards: Callable[[], Board], tmp_path: Path) -> None:
    by_id = tmp_path / "by-id"
    by_id.mkdir()
    link = by_id / "usb-3D_Robotics_PX4_FMU-if00"
    first = boards()
    (by_id / "usb-Another_Board-if00").symlink_to(boards().device)
    link.symlink_to(first.device)
    transport, handler = SerialTransport(first.device, by_id=by_id), Recorder()
    await transport.open(handler)
    second = boards()  # before the first is gone, so that it has another short name
    assert second.device != first.device
    first.pull()
    link.unlink()
    await until(lambda: len(handler.events) == 2)
    link.symlink_to(second.device)
    await until(lambda: len(handler.events) == 3, timeout_s=2.0)
    assert transport.write(b"ping")
    assert second.read() == b"ping"
    await transport.close()


async def test_report_27_a_second_opening_fails_with_a_clear_line(boards: Callable[[], Board]) -> None:
    board = boards()
    first, second = SerialTransport(board.device), SerialTransport(board.device)
    await first.open(Recorder())
    with pytest.raises(LinkUnavailableError) as caught:
        await second.open(Recorder())
    line = str(caught.value)
    assert line.startswith(f"cannot open {board.device}: the port is busy, held by ")
    assert f"(pid {os.getpid()})" in line
    assert len(line.splitlines()) == 1
    await second.close()
    await first.close()
    await second.open(Recorder())
    await second.close()


async def test_what_was_sent_before_the_opening_is_discarded(boards: Callable[[], Board]) -> None:
    board = boards()
    os.write(board.fd, b"stale" * 100)
    transport, handler = SerialTransport(board.device), Recorder()
    await transport.open(handler)
    os.write(board.fd, b"fresh")
    await until(lambda: bool(handler.data))
    await asyncio.sleep(0.02)
    assert handler.received == b"fresh"
    await transport.close()


async def test_every_byte_passes_and_the_line_is_8n1(boards: Callable[[], Board]) -> None:
    board = boards()
    transport, handler = SerialTransport(board.device, 57600), Recorder()
    await transport.open(handler)
    every = bytes(range(256)) * 2
    assert transport.write(every)
    os.write(board.fd, every)
    await until(lambda: len(handler.received) == len(every))
    assert handler.received == every
    assert board.read() == every
    iflag, _oflag, cflag, _lflag, _ispeed, ospeed, cc = board.attributes()
    assert isinstance(iflag, int)
    assert isinstance(cflag, int)
    assert isinstance(cc, list)
    assert cc[termios.VMIN] in (1, b"\x01"), "or an empty read could be taken for a device that is gone"
    assert ospeed == termios.B57600
    assert cflag & termios.CSIZE == termios.CS8
    assert not cflag & (termios.PARENB | termios.CSTOPB | termios.CRTSCTS)
    assert not iflag & (termios.IXON | termios.IXOFF)
    await transport.close()


async def test_a_board_that_takes_nothing_does_not_stop_the_loop(boards: Callable[[], Board]) -> None:
    board = boards()
    transport, handler = SerialTransport(board.device), Recorder()
    await transport.open(handler)
    while transport.write(b"x" * 1000):
        pass
    os.write(board.fd, b"still heard")
    await until(lambda: handler.received == b"still heard")
    await asyncio.wait_for(transport.close(), 5)


async def test_a_backlog_is_sent_and_then_the_loop_rests(
    boards: Callable[[], Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    board = boards()
    transport = SerialTransport(board.device)
    await transport.open(Recorder())
    taken = 0
    while transport.write(b"x" * 1000):
        taken += 1000
    arrived = b""
    async with asyncio.timeout(5):
        while len(arrived) < taken:
            arrived += board.read()
            await asyncio.sleep(0)
    assert arrived == b"x" * taken
    await asyncio.sleep(0.01)
    writes: list[int] = []

    def count(fd: int, _data: bytes) -> int:
        writes.append(fd)
        return 0

    monkeypatch.setattr("bridge.transport.serial.os.write", count)
    await asyncio.sleep(0.02)
    assert writes == []
    monkeypatch.undo()
    await transport.close()


async def test_a_backlog_does_not_reach_the_next_device(boards: Callable[[], Board], tmp_path: Path) -> None:
    link = tmp_path / "ttyACM0"
    first = boards()
    link.symlink_to(first.device)
    transport, handler = SerialTransport(str(link)), Recorder()
    await transport.open(handler)
    while transport.write(b"x" * 1000):
        pass
    first.pull()
    link.unlink()
    await until(lambda: handler.downs == 1)
    second = boards()
    link.symlink_to(second.device)
    await until(lambda: handler.ups == 2)
    assert transport.write(b"ping")
    await asyncio.sleep(0.02)
    assert second.read() == b"ping"
    await transport.close()


async def test_a_write_that_finds_the_device_gone_tells_of_it_later(boards: Callable[[], Board]) -> None:
    board = boards()
    transport, handler = SerialTransport(board.device), Recorder()
    await transport.open(handler)
    board.pull()
    assert transport.write(b"into the void") is False
    assert handler.events == ["up"], "not from inside write"
    await until(lambda: len(handler.events) == 2)
    assert transport.dropped == 1
    await transport.close()


@pytest.mark.parametrize(("name", "why"), [("missing", "no such device"), ("a-file", "not a serial device")])
async def test_what_is_no_device_is_told_in_one_line(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "a-file").write_bytes(b"unharmed")
    transport = SerialTransport(str(tmp_path / name))
    with pytest.raises(LinkUnavailableError) as caught:
        await transport.open(Recorder())
    line = str(caught.value)
    assert str(tmp_path / name) in line
    assert why in line
    assert len(line.splitlines()) == 1
    await transport.close()
    assert (tmp_path / "a-file").read_bytes() == b"unharmed"
