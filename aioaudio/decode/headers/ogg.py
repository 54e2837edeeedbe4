"""Ogg with one Vorbis or Opus stream, or several that follow one another.

A page's granule position says where on the stream's timeline its last packet ends. So the last page gives the length,
less what lies before the stream's first sample; the first page of sound tells that, by how much the samples of its
packets differ from its granule position.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.ogg_codecs import Packets, Stream, identify, opus_samples, vorbis_blocks
from aioaudio.decode.headers.ogg_pages import FRONT_BYTES, Page, last_page, page_at, stream_starts
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

_PREROLL_SECONDS = {"vorbis": 0.2, "opus": 1.0}

# Pages of headers: a cover picture fills some dozens.
_MAX_HEADER_PAGES = 256

# The modes of Vorbis are within so many bytes of the end of the headers.
_SETUP_TAIL_BYTES = 64

_LINK_BYTES = 8192

_CUT = Damage(None, "truncated", "ends inside an Ogg page")


class _Length(NamedTuple):
    """Samples of a stream, those that FFmpeg gives before them, and how many more it may give behind them; `untrimmed`
    if that holds only without its own trimming."""

    num_samples: int | None
    leading: int = 0
    slack: int = 0
    untrimmed: bool = False


class _Sound(NamedTuple):
    """The first page behind the headers, the packets up to its end, and the end of the headers."""

    page: Page
    packets: Packets
    setup_tail: bytes


_UNKNOWN = _Length(None)


def parse(file: OpenBytes, head: memoryview) -> Facts | None:
    """Facts of an Ogg file of Vorbis or Opus with one or two channels, None for any other."""
    window = Window(file, head)
    first = page_at(window, 0)
    stream = None if first is None else _stream(window, first)
    if first is None or stream is None:
        return None
    window = window.moved(FRONT_BYTES, 0)
    last, is_cut = last_page(window, 0, file.size)
    if last is None:
        return None
    bounds = tuple(pairwise([*stream_starts(window, first, last), file.size]))
    length = _chain_length(window, stream, bounds) if len(bounds) > 1 else _length(window, stream, first, last)
    if length is None:
        return None
    return Facts(
        container="ogg",
        codec=stream.codec,
        sample_rate=stream.sample_rate,
        num_channels=stream.num_channels,
        channel_layout="mono" if stream.num_channels == 1 else "stereo",
        num_samples=length.num_samples,
        leading_samples=length.leading,
        slack=length.slack,
        untrimmed=length.untrimmed,
        frame_samples=stream.long_block,
        preroll_seconds=_PREROLL_SECONDS[stream.codec] if len(bounds) == 1 else None,
        pieces=bounds if len(bounds) > 1 else None,
        damage=(_CUT,) if is_cut else (),
    )


def _stream(window: Window, first: Page) -> Stream | None:
    """The stream that begins with the page `first`, None if it is not known here, or one of several at once."""
    second = page_at(window, first.stop)
    if not first.begins_stream or first.num_packets != 1 or second is None or second.begins_stream:
        return None
    return identify(bytes(window.read(first.stop - first.body, first.body)))


def _chain_length(window: Window, stream: Stream, bounds: tuple[tuple[int, int], ...]) -> _Length | None:
    """The length of all the streams that lie in `bounds`, of which `stream` is the first. None if one is not known."""
    lengths: list[int] = []
    for start, stop in bounds:
        near = window.moved(_LINK_BYTES, start)
        first, (last, _) = page_at(near, start), last_page(window, start, stop)
        link = None if first is None else _stream(near, first)
        length = None if first is None or link is None or last is None else _length(near, link, first, last)
        if link is None or length is None:
            return None
        is_alike = (link.sample_rate, link.num_channels) == (stream.sample_rate, stream.num_channels)
        if is_alike and length.num_samples is not None:
            lengths.append(length.num_samples)
    return _Length(sum(lengths)) if len(lengths) == len(bounds) else _UNKNOWN


def _length(window: Window, stream: Stream, first: Page, last: Page) -> _Length | None:
    """The length of `stream`, which begins with the page `first` and ends with `last`, None if that is another's."""
    if last.serial != first.serial:
        return None
    sound = _first_sound(window, stream, first)
    if sound is None or sound.page.stop > last.stop or (sound.page.is_last and sound.page.offset != last.offset):
        return _UNKNOWN
    if stream.codec == "opus":
        length = _opus_length(opus_samples(sound.packets), stream.pre_skip, sound.page, last)
    else:
        length = _vorbis_length(vorbis_blocks(stream, sound.setup_tail, sound.packets), sound.page, last)
    return length if length.num_samples is not None and length.num_samples >= 0 else _UNKNOWN


def _opus_length(decoded: int, pre_skip: int, sound: Page, last: Page) -> _Length:
    """`decoded` are the samples of all packets of the page `sound`."""
    if sound.is_last:
        return _Length(min(sound.granule, decoded) - pre_skip)
    start = sound.granule - decoded
    # No timeline may begin before zero.
    return _UNKNOWN if start < 0 or not decoded else _Length(last.granule - start - pre_skip)


def _vorbis_length(blocks: list[int], sound: Page, last: Page) -> _Length:
    """`blocks` are the sizes of those of the page `sound`, and first of the one before.

    A packet has the samples between the middle of its block and that of the one before it; a decoder gives those of
    the second packet first.
    """
    if len(blocks) < 3:
        return _UNKNOWN
    first, second, final = (sum(blocks[i : i + 2]) // 4 for i in (0, 1, len(blocks) - 2))
    decoded = sum(blocks[1:]) // 2 - (blocks[1] + blocks[-1]) // 4
    if sound.is_last:
        num_samples = min(sound.granule, decoded)
        excess = decoded - num_samples
        # FFmpeg takes the first packet's samples for given, too, and cuts so many too many off the end; or, where
        # the last packet has less than that, none at all.
        if excess + first <= final:
            return _Length(num_samples, leading=first, slack=excess, untrimmed=True)
        return _Length(num_samples, slack=excess)
    start = sound.granule - decoded
    if start >= 0:
        return _Length(last.granule - start)
    # What lies before zero is to be dropped: of the first packet that gives samples, at most all.
    return _Length(last.granule, leading=-start) if -start <= second else _UNKNOWN


def _first_sound(window: Window, stream: Stream, first: Page) -> _Sound | None:
    page, num_packets = first, 1
    for _ in range(_MAX_HEADER_PAGES):
        if num_packets >= stream.num_headers:
            break
        header = page_at(window, page.stop)
        if header is None or header.serial != first.serial:
            return None
        page, num_packets = header, num_packets + header.num_packets
    sound = page_at(window, page.stop)
    if num_packets < stream.num_headers or sound is None or sound.serial != first.serial or sound.is_continued:
        return None
    if sound.stop > window.size:
        return None
    # Sound should begin on a page of its own; some encoders put its first packet behind the headers.
    data = bytes(window.read(sound.stop - page.body, page.body))
    bounds = _packet_bounds(page, 0)
    num_done = len(bounds) - (num_packets - stream.num_headers)
    setup_stop = bounds[num_done - 1][1]
    packets = Packets(data, bounds[num_done:] + _packet_bounds(sound, sound.body - page.body))
    return _Sound(sound, packets, data[max(0, setup_stop - _SETUP_TAIL_BYTES) : setup_stop])


def _packet_bounds(page: Page, body: int) -> list[tuple[int, int]]:
    """Where the packets that end in `page` lie, if its body begins at `body`; the first may have begun before it."""
    bounds: list[tuple[int, int]] = []
    start = stop = body
    for size in page.lacing:
        stop += size
        if size < 255:
            bounds.append((start, stop))
            start = stop
    return bounds
