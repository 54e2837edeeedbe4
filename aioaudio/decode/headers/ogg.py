"""Ogg with one Vorbis, Opus or FLAC stream, or several that follow one another.

A page's granule position says where on the stream's timeline its last packet ends. So the last page gives the length,
less what lies before the stream's first sample; the first page of sound tells that, by how much the samples of its
packets differ from its granule position.
"""

from __future__ import annotations

from typing import NamedTuple

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.decode.headers.ogg_codecs import Packets, Stream, identify, opus_samples, vorbis_blocks
from aioaudio.decode.headers.ogg_pages import Page, is_intact, page_at
from aioaudio.decode.headers.ogg_walk import Link, find_links
from aioaudio.decode.headers.window import Window
from aioaudio.encoded import OpenBytes

__all__ = ["parse"]

_PREROLL_SECONDS = {"vorbis": 0.2, "opus": 1.0}

# Pages of headers: a cover picture fills some dozens.
_MAX_HEADER_PAGES = 256

# The modes of Vorbis are within so many bytes of the end of the headers.
_SETUP_TAIL_BYTES = 64

_LINK_BYTES = 1 << 13


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
    """Facts of an Ogg file of Vorbis, Opus or FLAC, of up to eight channels; None for any other."""
    window = Window(file, head)
    first = page_at(window, 0)
    stream = None if first is None else _stream(window, first)
    if first is None or stream is None:
        return None
    lengths: list[_Length] = []
    damage: list[Damage] = []
    seconds: float | None = 0.0
    links = find_links(window, first)
    for link in links:
        near = window.moved(_LINK_BYTES, link.first.offset)
        own = _stream(near, link.first)
        if own is None or link.last.serial != link.first.serial:
            return None
        length = _length(near, own, link)
        damage += _damage(link, own, length.num_samples, seconds)
        is_alike = (own.sample_rate, own.num_channels) == (stream.sample_rate, stream.num_channels)
        lengths.append(length if is_alike else _UNKNOWN)
        if seconds is not None:
            seconds = None if length.num_samples is None else seconds + length.num_samples / own.sample_rate
    if not links:
        return None
    length, is_chain = _sum(lengths), len(links) > 1
    return Facts(
        container="ogg",
        codec=stream.codec,
        sample_rate=stream.sample_rate,
        num_channels=stream.num_channels,
        channel_layout=stream.channel_layout,
        bits_per_sample=stream.bits_per_sample,
        num_samples=length.num_samples,
        seconds=seconds if length.num_samples is None else None,
        leading_samples=length.leading,
        slack=length.slack,
        untrimmed=length.untrimmed,
        frame_samples=stream.long_block,
        preroll_seconds=None if is_chain else _PREROLL_SECONDS.get(stream.codec),
        pieces=tuple((link.first.offset, link.stop) for link in links) if is_chain else None,
        damage=tuple(damage),
        md5=None if is_chain else stream.md5,
    )


def _stream(window: Window, first: Page) -> Stream | None:
    """The stream that begins with the page `first`, None if it is not known here, or one of several at once."""
    second = page_at(window, first.stop)
    if not first.begins_stream or first.num_packets != 1 or second is None or second.begins_stream:
        return None
    return identify(bytes(window.read(first.stop - first.body, first.body)))


def _sum(lengths: list[_Length]) -> _Length:
    if len(lengths) == 1:
        return lengths[0]
    known = [length.num_samples for length in lengths if length.num_samples is not None]
    return _Length(sum(known)) if len(known) == len(lengths) else _UNKNOWN


def _damage(link: Link, stream: Stream, num_samples: int | None, seconds: float | None) -> list[Damage]:
    """The faults of `link`, a stream of `num_samples`, on a timeline where it begins at `seconds`; None is unknown."""
    damage: list[Damage] = []
    for granule, kind, message in link.faults:
        position = _position(granule, link, stream, num_samples)
        if position is not None and position == stream.num_samples:
            kind = "junk"  # FLAC may store its length: behind that is nothing to be missed
        at_seconds = None if position is None or seconds is None else seconds + position / stream.sample_rate
        damage.append(Damage(at_seconds, kind, message))
    return damage


def _position(granule: int, link: Link, stream: Stream, num_samples: int | None) -> int | None:
    """The sample of a stream of `num_samples` at a granule position; None where it cannot be told."""
    if granule <= 0:
        return 0
    if num_samples is None:
        return None
    start = 0 if stream.codec == "flac" else link.last.granule - num_samples
    return min(max(0, granule - start), num_samples)


def _length(window: Window, stream: Stream, link: Link) -> _Length:
    """The length of `stream`, which is that of `link`."""
    sound, last = _first_sound(window, stream, link), link.last
    if sound is None or sound.page.stop > last.stop or (sound.page.is_last and sound.page.offset != last.offset):
        return _UNKNOWN
    if stream.codec == "flac":
        length = _Length(_flac_length(sound.packets, stream.num_samples, last))
    elif stream.codec == "opus":
        length = _opus_length(opus_samples(sound.packets), stream.pre_skip, sound.page, last)
    else:
        length = _vorbis_length(vorbis_blocks(stream, sound.setup_tail, sound.packets), sound.page, last)
    return length if length.num_samples is not None and length.num_samples >= 0 else _UNKNOWN


def _flac_length(packets: Packets, num_samples: int | None, last: Page) -> int | None:
    """The length that the stream stores, or that of its pages; None if it does not begin at its beginning."""
    data, bounds = packets
    if not bounds or data[bounds[0][0] :][4:5] != b"\0":  # the number of the first frame, or of its first sample
        return None
    return last.granule if num_samples is None else num_samples


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


def _first_sound(window: Window, stream: Stream, link: Link) -> _Sound | None:
    first = page = link.first
    num_packets = 1
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
    if not is_intact(window, sound):
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
