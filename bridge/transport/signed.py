"""A link on which everything is signed: signs what leaves, and lets nothing in whose signature is not good.

It lies between the loop and the wire. So a session file holds frames as they are without a signature when they leave,
and only good ones that came: it replays without the key, and the key is in no file.
"""

from __future__ import annotations

import dataclasses

from bridge.codec import Decoder
from bridge.signing import LinkSigning, SigningKey, Verdict
from bridge.transport.base import LinkHandler, Nobody, Transport


class SignedTransport(Transport):
    """Any transport, signed.

    Args:
        inner: the link itself.
        key: that both ends know.
    """

    def __init__(self, inner: Transport, key: SigningKey) -> None:
        self.signing = LinkSigning(key)
        self.datagrams, self.speaks_first = inner.datagrams, inner.speaks_first
        self._inner = inner
        self._handler: LinkHandler = Nobody()
        self._decoder = Decoder(datagrams=inner.datagrams)

    @property
    def address(self) -> str:  # type: ignore[override]
        """Of the link."""
        return self._inner.address

    @property
    def dropped(self) -> int:  # type: ignore[override]
        """By the link; for a signature's sake dropped frames are in `signing.stats`."""
        return self._inner.dropped

    @property
    def ignored(self) -> int:  # type: ignore[override]
        """By the link."""
        return self._inner.ignored

    async def open(self, handler: LinkHandler) -> None:
        """Open the link."""
        self._handler = handler
        try:
            await self._inner.open(self)
        except BaseException:
            self._handler = Nobody()
            raise

    def summary(self) -> dict[str, int]:
        """Frames that were dropped, by reason; damaged ones do not reach the session, so they are counted here."""
        return dataclasses.asdict(self.signing.stats) | {"bad": self._decoder.stats.bad_frames}

    def write(self, data: bytes) -> bool:
        """Sign one of our frames and send it."""
        return self._inner.write(self.signing.sign(data))

    def pass_on(self, data: bytes) -> bool:
        """Send a frame as it is: somebody else has signed it with the same key."""
        return self._inner.pass_on(data)

    def waiting(self) -> int:
        """See `Transport.waiting`."""
        return self._inner.waiting()

    def unpin(self) -> None:
        """Forget a silent peer of the link."""
        self._inner.unpin()

    async def close(self) -> None:
        """Close the link."""
        self._handler = Nobody()
        await self._inner.close()

    # The link's handler

    def link_up(self, peer: str) -> None:
        """A peer is there."""
        self._handler.link_up(peer)

    def link_down(self, reason: str) -> None:
        """The peer is gone, and a frame of which a part had come."""
        self._decoder.forget_sequences()
        self._handler.link_down(reason)

    def link_data(self, data: bytes) -> None:
        """Hand over what is well signed, unchanged."""
        frames = [bytes(message.get_msgbuf()) for message in self._decoder.feed(data)]
        good = b"".join(frame for frame in frames if self.signing.check(frame) is Verdict.GOOD)
        if good:
            self._handler.link_data(good)

    def link_refused(self) -> None:
        """A datagram was refused."""
        self._handler.link_refused()

    def link_ignored(self, peer: str) -> None:
        """Somebody else spoke."""
        self._handler.link_ignored(peer)
