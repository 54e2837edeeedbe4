"""What is missing or wrong in MP3 and Ogg files shows in their headers, at its place, and nothing in sound ones."""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from collections.abc import Callable

import pytest
from coded_files import ID3V1, OPUS, VORBIS, ape, decode, id3v2, known, noise, pages, rewritten
from media import MediaLibrary
from pcm_files import CountingBytes

from aioaudio.audio import Damage
from aioaudio.decode.headers import read_facts
from aioaudio.decode.headers.mp3_frames import frame_at
from aioaudio.decode.headers.window import Window

Break = Callable[[random.Random, bytes, int, int], bytes]


def zero(rng: random.Random, data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + bytes(stop - start) + data[stop:]


def overwrite(rng: random.Random, data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + rng.randbytes(stop - start) + data[stop:]


def remove(rng: random.Random, data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + data[stop:]


def insert(rng: random.Random, data: bytes, start: int, stop: int) -> bytes:
    return data[:start] + rng.randbytes(stop - start) + data[start:]


BREAKS: list[Break] = [zero, overwrite, remove, insert]


def losses(data: bytes) -> list[tuple[float | None, str]]:
    return [(damage.at_seconds, damage.kind) for damage in known(data).damage if damage.kind != "junk"]


# --- MPEG audio ------------------------------------------------------------------------------------------------------


class Frames:
    """MPEG audio: where its frames begin, and at which second each begins to sound."""

    def __init__(self, data: bytes, *, has_tag: bool) -> None:
        self.data = data
        window = Window(CountingBytes(data), memoryview(data))
        first = frame_at(window, 0)
        assert first is not None
        self.samples, self.rate = first.num_samples, first.sample_rate
        # FFmpeg leaves out the tag's own frame, and what LAME adds at the front: 576 samples, and 529 of any decoder.
        self.num_leading = self.samples + 1105 if has_tag else 0
        self.starts, at = [0], first.num_bytes
        while frame := frame_at(window, at):
            self.starts.append(at)
            at += frame.num_bytes
        assert at == len(data)

    def seconds(self, index: int) -> float:
        return max(0, index * self.samples - self.num_leading) / self.rate

    def index_at(self, offset: int) -> int:
        """The frame in which the byte at `offset` lies."""
        return bisect_right(self.starts, offset) - 1

    def place(self, rng: random.Random) -> int:
        """Some byte behind the header of a frame, neither of the first two nor of the last four."""
        while True:
            place = rng.randrange(self.starts[2], self.starts[-4])
            if place >= self.starts[self.index_at(place)] + 4:
                return place

    def follows(self, offset: int) -> bool:
        """Whether the next frame begins at `offset`, or after a few zeros: by chance, where it should."""
        start = self.starts[bisect_right(self.starts, offset - 1)]
        return start - offset < 24 and not any(self.data[offset:start])


MPEG_KINDS = ["cbr", "vbr", "cbr without tag", "vbr without tag", "mp2"]


def make_frames(media: MediaLibrary, kind: str) -> Frames:
    if kind == "mp2":
        return Frames(media.make("mp2", sample_rate=44_100, channels=2).path.read_bytes(), has_tag=False)
    how: dict[str, float] = {"quality": 4.0} if kind.startswith("vbr") else {"bit_rate": 64_000}
    has_tag = "without" not in kind
    data = media.make("mp3", sample_rate=44_100, seconds=4.0, tag=has_tag, **how).path.read_bytes()  # type: ignore[arg-type]
    return Frames(data[data.index(b"\xff\xfb") :], has_tag=has_tag)


@pytest.mark.parametrize("kind", MPEG_KINDS)
def test_mpeg_audio_cut_inside_a_frame_is_damaged_from_that_frame_on(
    kind: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    frames, rng = make_frames(media, kind), random.Random(1)
    for stop in [frames.place(rng) for _ in range(soak(1000))] + [start + 1 for start in frames.starts[2:-4]]:
        at_seconds = frames.seconds(frames.index_at(stop))
        for tail in (b"", ID3V1, ape(200)):
            assert losses(frames.data[:stop] + tail) == [(at_seconds, "truncated")], stop


@pytest.mark.parametrize("kind", ["cbr", "vbr"])
def test_an_mp3_cut_between_frames_is_damaged_if_it_has_a_tag(kind: str, media: MediaLibrary) -> None:
    frames = make_frames(media, kind)
    for index, stop in enumerate(frames.starts[2:-4], start=2):
        for tail in (b"", ID3V1):
            assert losses(frames.data[:stop] + tail) == [(frames.seconds(index), "truncated")]


@pytest.mark.parametrize("kind", MPEG_KINDS)
@pytest.mark.parametrize("damage", BREAKS)
def test_a_gap_in_mpeg_audio_is_damage_from_the_frame_on_in_which_it_begins(
    damage: Break, kind: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    frames, rng = make_frames(media, kind), random.Random(2)
    for _ in range(soak(1000)):
        start = frames.place(rng)
        index = frames.index_at(start)
        # Up to some place behind the next header: what is wrong inside a frame alone, only a decoder can see.
        stop = rng.randrange(frames.starts[index + 1] + 3, frames.starts[min(index + 30, len(frames.starts) - 2)])
        if damage is remove and frames.follows(frames.starts[index + 1] - start + stop):
            continue
        broken = damage(rng, frames.data, start, stop)
        assert losses(broken)[0] == (frames.seconds(index), "undecodable"), (start, stop)


@pytest.mark.parametrize("damage", [zero, overwrite])
def test_the_end_of_an_mp3_overwritten_is_damage_if_it_has_a_tag(
    damage: Break, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    frames, rng = make_frames(media, "vbr"), random.Random(3)
    for _ in range(soak(500)):
        start = frames.place(rng)
        expected = (frames.seconds(frames.index_at(start)), "truncated")
        assert losses(damage(rng, frames.data, start, len(frames.data))) == [expected], start


def test_what_is_cut_from_the_padding_is_no_loss(media: MediaLibrary) -> None:
    frames = Frames(
        media.make("mp3", num_samples=1152 * 20 + 40, sample_rate=44_100).path.read_bytes()[45:], has_tag=True
    )
    facts = known(frames.data)
    assert facts.num_samples is not None
    assert frames.seconds(len(frames.starts) - 1) >= facts.num_samples / facts.sample_rate
    for stop in (frames.starts[-1], frames.starts[-1] + 1, len(frames.data) - 1):
        assert losses(frames.data[:stop]) == []
        assert known(frames.data[:stop]).num_samples == facts.num_samples


@pytest.mark.parametrize("kind", MPEG_KINDS)
def test_junk_behind_mpeg_audio_is_listed_and_tags_and_zeros_are_not(kind: str, media: MediaLibrary) -> None:
    frames = make_frames(media, kind)
    facts = known(frames.data)
    assert facts.damage == ()
    for tail in (ID3V1, ape(100), ape(100) + ID3V1, bytes(3_000), id3v2(900), b"TAG+" + bytes(223) + ID3V1):
        assert known(frames.data + tail) == facts
    lyrics = b"LYRICSBEGIN" + b"la" * 50
    assert known(frames.data + lyrics + f"{len(lyrics):06}LYRICS200".encode() + ID3V1) == facts
    for junk in (b"<html>" * 20, b"\xff", noise(9_000), b"LYRICSBEGIN", bytes(99) + b"x"):
        (listed,) = known(frames.data + junk + ID3V1).damage
        end = facts.num_samples if facts.num_samples is not None else len(frames.starts) * frames.samples
        if junk == b"\xff":
            assert listed.kind == ("junk" if facts.num_samples is not None else "truncated")
        else:
            assert listed.kind == "junk"
        assert listed.at_seconds == end / frames.rate


def test_some_zeros_between_frames_are_listed_where_no_frame_has_room(media: MediaLibrary) -> None:
    frames = make_frames(media, "cbr")
    start = frames.starts[40]
    for count, kind in ((1, "junk"), (23, "junk"), (24, "undecodable")):
        (listed,) = known(frames.data[:start] + bytes(count) + frames.data[start:]).damage
        assert (listed.kind, listed.at_seconds) == (kind, frames.seconds(40 if kind == "junk" else 39))


def test_frames_with_checksums_and_of_changing_rates_are_sound(media: MediaLibrary) -> None:
    frames = make_frames(media, "vbr without tag")
    protected = bytearray(frames.data)
    for start in frames.starts:
        protected[start + 1] &= 0xFE
    other = media.make("mp3", sample_rate=24_000, tag=False).path.read_bytes()
    for data in (bytes(protected), frames.data + other + frames.data, bytes(protected) + frames.data):
        assert known(data).damage == ()


def test_a_gap_behind_other_files_or_rates_is_at_its_place(media: MediaLibrary) -> None:
    frames = make_frames(media, "vbr")
    other = media.make("mp3", sample_rate=24_000, tag=False).path.read_bytes()
    num_other = decode(other)[0]
    start, stop = frames.starts[40] + 5, frames.starts[42] + 5
    broken = zero(random.Random(), frames.data, start, stop)
    first = known(frames.data).num_samples
    assert first is not None
    assert losses(frames.data + ID3V1 + broken) == [(first / 44_100 + frames.seconds(40), "undecodable")]
    assert losses(other + broken) == [(num_other / 24_000 + frames.seconds(40), "undecodable")]


def test_of_a_large_mp3_the_end_alone_is_looked_at(media: MediaLibrary) -> None:
    frames = make_frames(media, "cbr without tag")
    count = (1 << 26) // len(frames.data) + 1
    data = frames.data * count
    gap = data[:-100_000] + bytes(5_000) + data[-95_000:]
    for broken, kinds in (
        (data, []),
        (data[:-9], ["truncated"]),
        (gap, ["undecodable"]),
        (data + noise(900), ["junk"]),
    ):
        file = CountingBytes(broken)
        facts = read_facts(file, memoryview(broken)[:4096])
        assert facts is not None
        assert [(damage.at_seconds, damage.kind) for damage in facts.damage] == [(None, kind) for kind in kinds]
        assert sum(stop - start for start, stop in file.reads) < 3 << 20


def test_the_tag_of_a_large_mp3_is_believed_unless_frames_follow(media: MediaLibrary) -> None:
    tagged, frames = make_frames(media, "cbr"), make_frames(media, "cbr without tag")
    count = (1 << 26) // len(frames.data) + 1
    num_frames, num_bytes = len(frames.starts) * count, tagged.starts[1] + len(frames.data) * count
    at = tagged.data.index(b"Info") + 8
    head = tagged.data[:at] + struct.pack(">II", num_frames, num_bytes) + tagged.data[at + 8 : tagged.starts[1]]
    facts = known(head + frames.data * count)
    assert facts.num_samples is not None
    assert 0 < num_frames * 1152 - facts.num_samples < 3 * 1152
    assert known(head + frames.data * count + ID3V1) == facts
    assert known(head + frames.data * (count + 1)).num_samples is None
    assert known(head + frames.data * count + ID3V1 + id3v2(999) + frames.data).num_samples is None


# --- Ogg -------------------------------------------------------------------------------------------------------------


class Pages:
    """An Ogg file: its pages, and the last sample of the timeline that is whole before each."""

    def __init__(self, data: bytes) -> None:
        self.data, self.pages = data, pages(data)
        self.starts = [0]
        for page in self.pages:
            self.starts.append(self.starts[-1] + len(page))
        granules = [struct.unpack_from("<q", page, 6)[0] for page in self.pages]
        self.num_headers = next(i for i, granule in enumerate(granules) if granule > 0)
        facts = known(data)
        assert facts.num_samples is not None
        before = granules[-1] - facts.num_samples  # FLAC begins at zero, Vorbis may not, Opus does behind its delay
        positions = [0, *(max(0, granule - before) for granule in granules)]
        self.seconds = [position / facts.sample_rate for position in positions]


def make_pages(media: MediaLibrary, kind: str) -> Pages:
    if kind in ("vorbis", "opus"):
        return Pages({"vorbis": VORBIS, "opus": OPUS}[kind])
    codec, channels = kind.split()
    return Pages(media.make(codec, seconds=3.3, channels=int(channels)).path.read_bytes())


OGG_KINDS = ["vorbis", "opus", "vorbis 6", "opus 8", "flac-ogg 2", "flac-ogg 6"]


@pytest.mark.parametrize("kind", OGG_KINDS)
def test_a_cut_ogg_file_is_damaged_at_its_end_and_promises_what_is_left(
    kind: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    ogg, rng = make_pages(media, kind), random.Random(4)
    first = ogg.starts[ogg.num_headers + 1]
    cuts = [rng.randrange(first, len(ogg.data)) for _ in range(soak(1000))]
    cuts += [start + extra for start in ogg.starts[ogg.num_headers + 1 : -1] for extra in (0, 1, 3, 4, 27)]
    for stop in cuts:
        data = ogg.data[:stop]
        facts = known(data)
        at_seconds = ogg.seconds[bisect_right(ogg.starts, stop) - 1]
        assert [(damage.at_seconds, damage.kind) for damage in facts.damage] == [(at_seconds, "truncated")], stop
        assert facts.num_samples is not None
        assert facts.num_samples / facts.sample_rate == at_seconds
    for stop in cuts[:: len(cuts) // 5]:
        facts = known(ogg.data[:stop])
        assert decode(ogg.data[:stop])[0] == facts.num_samples


@pytest.mark.parametrize("kind", OGG_KINDS)
def test_missing_pages_are_damage_at_their_place(kind: str, media: MediaLibrary) -> None:
    ogg = make_pages(media, kind)
    num_pages = len(ogg.pages)
    for start in range(ogg.num_headers, num_pages):
        for stop in range(start + 1, min(start + 4, num_pages + 1)):
            if stop == num_pages and start == ogg.num_headers:
                continue  # nothing is left
            kind_of_loss = "undecodable" if stop < num_pages else "truncated"
            data = b"".join(ogg.pages[:start] + ogg.pages[stop:])
            assert losses(data) == [(ogg.seconds[start], kind_of_loss)], (start, stop)


@pytest.mark.parametrize("kind", OGG_KINDS)
@pytest.mark.parametrize("damage", BREAKS)
def test_a_gap_in_an_ogg_file_is_damage_from_the_page_on_in_which_it_begins(
    damage: Break, kind: str, media: MediaLibrary, soak: Callable[[int], int]
) -> None:
    ogg, rng = make_pages(media, kind), random.Random(5)
    for _ in range(soak(500)):
        index = rng.randrange(ogg.num_headers, len(ogg.pages) - 2)
        start = rng.randrange(ogg.starts[index] + 1, ogg.starts[index + 1])
        # Up to some place behind the next header: what is wrong inside a page alone shows in its checksum.
        stop = rng.randrange(ogg.starts[index + 1] + 27, ogg.starts[min(index + 4, len(ogg.pages) - 1)])
        broken = damage(rng, ogg.data, start, stop)
        assert losses(broken)[0] == (ogg.seconds[index], "undecodable"), (start, stop)
    for _ in range(soak(100)):
        index = rng.randrange(ogg.num_headers, len(ogg.pages))
        start = rng.randrange(ogg.starts[index] + 1, ogg.starts[index + 1])
        broken = damage(rng, ogg.data, start, len(ogg.data) + 9)
        kind_of_loss = "undecodable" if damage is insert and index < len(ogg.pages) - 1 else "truncated"
        assert losses(broken)[0] == (ogg.seconds[index], kind_of_loss), start


@pytest.mark.parametrize("data", [VORBIS, OPUS], ids=["vorbis", "opus"])
def test_links_of_a_chain_are_damaged_at_their_place(data: bytes) -> None:
    ogg, other = Pages(data), rewritten(data, serial=5)
    length = ogg.seconds[-1]
    assert losses(data + other) == []
    assert losses(data + other[:-9]) == [(length + ogg.seconds[-2], "truncated")]
    without_end = b"".join(ogg.pages[:-1])
    assert losses(without_end + other) == [(ogg.seconds[-2], "undecodable")]
    without_third = b"".join(ogg.pages[:3] + ogg.pages[4:])
    assert losses(other + without_third + other) == [(length + ogg.seconds[3], "undecodable")]


@pytest.mark.parametrize("tail", [b"O", b"OggS", b"OggS\0\0\0"])
def test_the_beginning_of_a_page_is_a_cut_page(tail: bytes) -> None:
    assert losses(VORBIS + tail) == [(Pages(VORBIS).seconds[-1], "truncated")]


def test_an_ogg_stream_that_no_page_ends_is_cut() -> None:
    # Recordings of broadcasts, and those of killed encoders, are like this.
    facts, whole = known(rewritten(VORBIS, flags=lambda old: old & ~4)), known(VORBIS)
    assert whole.num_samples is not None
    message = "the last page does not end the stream"
    assert facts.damage == (Damage(whole.num_samples / whole.sample_rate, "truncated", message),)
    assert facts.num_samples == whole.num_samples


def test_junk_in_an_ogg_file_is_listed_and_tags_and_zeros_are_not() -> None:
    whole, ogg = known(VORBIS), Pages(VORBIS)
    for tail in (ID3V1, bytes(5_000), id3v2(300)):
        assert known(VORBIS + tail) == whole
    for tail in (b"Og is no page", noise(20_000)):
        assert known(VORBIS + tail).damage == (
            Damage(ogg.seconds[-1], "junk", f"{len(tail)} bytes behind the last page"),
        )
        assert known(VORBIS + tail).num_samples == whole.num_samples
    between = VORBIS[: ogg.starts[5]] + noise(99 * 2) + VORBIS[ogg.starts[5] :]
    assert known(between).damage == (Damage(ogg.seconds[5], "junk", "198 bytes between pages"),)


def test_of_a_large_ogg_file_the_end_alone_is_looked_at(media: MediaLibrary) -> None:
    made = media.make("flac-ogg", seconds=100.0, channels=2, signal="noise", sample_format="s24")
    data = made.path.read_bytes()
    assert len(data) > 1 << 24
    ogg = Pages(data)
    cut = data[: ogg.starts[-2] + 1000]
    for part, expected in (
        (data, []),
        (cut, [(ogg.seconds[-2], "truncated")]),
        (data[: ogg.starts[-3]], [(ogg.seconds[-3], "truncated")]),
    ):
        file = CountingBytes(part)
        facts = read_facts(file, memoryview(part)[:4096])
        assert facts is not None
        assert [(damage.at_seconds, damage.kind) for damage in facts.damage] == expected
        assert sum(min(stop, len(part)) - start for start, stop in file.reads) < 2 << 20
