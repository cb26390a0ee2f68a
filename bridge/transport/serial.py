"""A serial line, opened for this process alone and opened again when the device comes back.

pyserial sets the port up; the bytes go straight through its file descriptor, because pyserial's own non-blocking write
spins for as long as the device takes nothing (pyserial issue 280), and its asyncio wrappers write and drain through it.
"""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import os
import termios
from contextlib import suppress
from pathlib import Path

import serial

from bridge.endpoint import DEFAULT_BAUD, Serial
from bridge.transport.base import WRITE_LIMIT, LinkHandler, Nobody, Transport
from bridge.transport.holders import holders
from bridge.transport.send_queue import SendQueue
from firmware_profiles.errors import LinkUnavailableError

REOPEN_S = 0.25
BY_ID = Path("/dev/serial/by-id")

_READ_SIZE = 65536
_BUSY = (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK)


class SerialTransport(Transport):
    """8N1, no flow control, exclusive; what the device had sent before the opening is discarded.

    When the device disappears it is opened again under the path given. If that is a short name (/dev/ttyACM0) and the
    system also knows the device by id, it is opened again by id: a board that restarts can come back as ttyACM1, and
    for some seconds its bootloader can be ttyACM0.

    Args:
        device: Absolute path.
        baud: Rate in baud; a USB port ignores it.
        by_id: Folder of the links by id.
    """

    def __init__(self, device: str, baud: int = DEFAULT_BAUD, *, by_id: Path = BY_ID) -> None:
        self.address = str(Serial(device, baud))
        self._device = device
        self._baud = baud
        self._by_id = by_id
        self._handler: LinkHandler = Nobody()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._port: serial.Serial | None = None
        self._fd = -1
        self._unsent = SendQueue(WRITE_LIMIT)
        self._closing = asyncio.Event()
        self._reopening: asyncio.Task[None] | None = None
        self._reopen_path = device

    async def open(self, handler: LinkHandler) -> None:
        """Open the device, which is the peer. Only this first opening fails when the device is not there."""
        if self._loop is not None:
            raise RuntimeError(f"{self.address} is open already")
        self._loop = asyncio.get_running_loop()
        try:
            port = await asyncio.to_thread(open_port, self._device, self._baud)
        except BaseException:
            self._loop = None
            raise
        self._reopen_path = _stable_path(self._device, self._by_id)
        self._closing.clear()
        self._handler = handler
        self._attach(port)

    def write(self, data: bytes) -> bool:
        """Send one frame. What the device does not take at once waits, within `WRITE_LIMIT`; of sensors, the newest."""
        unsent = self._unsent
        if self._port is None:
            self.dropped += 1
            return False
        if unsent:
            superseded = unsent.superseded
            taken = unsent.add(data)
            self.dropped += unsent.superseded - superseded + (not taken)
            return taken
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lose_soon(error)
            self.dropped += 1
            return False
        if sent < len(data):
            unsent.add(data, sent)
            assert self._loop is not None
            self._loop.add_writer(self._fd, self._writable)
        return True

    def waiting(self) -> int:
        """What the device has not taken, and what waits in its driver."""
        if self._port is None:
            return 0
        in_driver = array.array("i", (0,))
        with suppress(OSError):  # a driver that does not say
            fcntl.ioctl(self._fd, termios.TIOCOUTQ, in_driver)
        return self._unsent.size + in_driver[0]

    async def close(self) -> None:
        """Close the device at once, without waiting for unsent bytes."""
        self._handler = Nobody()
        self._closing.set()
        self._detach()
        task, self._reopening = self._reopening, None
        if task is not None:
            await task
        self._loop = None

    def _attach(self, port: serial.Serial) -> None:
        assert self._loop is not None
        self._port = port
        self._fd = port.fileno()
        self._loop.add_reader(self._fd, self._readable)
        self._handler.link_up(self._device)

    def _detach(self) -> None:
        port, self._port = self._port, None
        if port is None:
            return
        assert self._loop is not None
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._unsent.clear()
        self._fd = -1
        _close_port(port)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(self._port, error)
            return
        if data:
            self._handler.link_data(data)
        else:
            self._lose(self._port, None)

    def _writable(self) -> None:
        try:
            while self._unsent:
                self._unsent.sent(os.write(self._fd, self._unsent.head()))
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(self._port, error)
            return
        if not self._unsent and self._loop is not None:
            self._loop.remove_writer(self._fd)

    def _lose_soon(self, error: OSError) -> None:
        if self._loop is not None:
            self._loop.call_soon(self._lose, self._port, error)

    def _lose(self, port: serial.Serial | None, error: OSError | None) -> None:
        if port is None or port is not self._port:
            return  # told already
        self._detach()
        why = "the device is gone" if error is None else f"the device is gone ({error.strerror or error})"
        self._reopening = asyncio.create_task(self._reopen(), name=f"reopen {self._device}")
        self._handler.link_down(why)

    async def _reopen(self) -> None:
        while not self._closing.is_set():
            try:
                port = await asyncio.to_thread(open_port, self._reopen_path, self._baud)
            except LinkUnavailableError:
                await self._pause()
                continue
            if self._closing.is_set():
                _close_port(port)
            else:
                self._attach(port)
            return

    async def _pause(self) -> None:
        # close() ends the pause and is not to cancel an opening, whose port would be left open.
        with suppress(TimeoutError):
            async with asyncio.timeout(REOPEN_S):
                await self._closing.wait()


def open_port(device: str, baud: int) -> serial.Serial:
    """Open a port for this process alone, raw and with its stale input discarded.

    May block while the device answers: call it in a thread.

    Raises:
        LinkUnavailableError: one line that names the port, why it cannot be had and, if it is busy, who holds it.
    """
    try:
        port = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
    except serial.SerialException as error:
        raise LinkUnavailableError(f"cannot open {device}: {_why(device, error)}") from None
    except (OSError, termios.error) as error:
        raise LinkUnavailableError(f"cannot open {device}: {error.args[-1]}") from None
    except (ValueError, NotImplementedError):
        raise LinkUnavailableError(f"cannot open {device}: it cannot run at {baud} baud") from None
    fd = port.fileno()
    try:
        # pyserial's lock binds only those who ask for it; this one also makes the system refuse further openings.
        fcntl.ioctl(fd, termios.TIOCEXCL)
        # Without a least count of 1 an empty read does not tell "nothing there" from "device gone".
        attributes = termios.tcgetattr(fd)
        attributes[6][termios.VMIN] = 1
        termios.tcsetattr(fd, termios.TCSANOW, attributes)
    except (OSError, termios.error) as error:
        port.close()
        raise LinkUnavailableError(f"cannot open {device}: {error.args[-1]}") from None
    return port


def _close_port(port: serial.Serial) -> None:
    # What is unsent would make the closing wait, up to half a minute, for a device that takes nothing.
    with suppress(OSError, termios.error):  # it may be gone
        termios.tcflush(port.fileno(), termios.TCOFLUSH)
    port.close()


def _why(device: str, error: serial.SerialException) -> str:
    if error.errno in _BUSY:
        by = holders(device)
        likely = f"held by {by}" if by else "likely QGroundControl, ModemManager or another bridge holds it"
        return f"the port is busy, {likely}"
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return "no such device, is the board plugged in? (lav2-hil ports lists what is there)"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "no permission, is the user in the group of the device (often dialout)?"
    if error.errno is None:
        return "it is not a serial device"
    return os.strerror(error.errno)


def _stable_path(device: str, by_id: Path) -> str:
    """The link by id to a device that was given by its short name, else the path itself."""
    path = Path(device)
    if path.is_symlink():
        return device
    try:
        links = sorted(by_id.iterdir())
    except OSError:
        return device
    return next((str(link) for link in links if link.resolve() == path), device)
