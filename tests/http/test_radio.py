"""Radio stations: titles are taken out of the audio, and told where they came; a station that breaks off goes on."""

from __future__ import annotations

import asyncio
import csv
import io
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from media import MediaLibrary
from servers import Server
from stations import Station, with_metadata

import aioaudio
from aioaudio import Audio, HTTPOptions, Session, StreamEvent
from aioaudio.fetch.http.icy import Demixer, fields_of, header_text, interval_of

ASYNCIO = pytest.mark.asyncio(loop_factories=["asyncio"])
QUICK = HTTPOptions(retries=2, backoff=0.001)


@pytest.fixture
def speech(data: Path) -> bytes:
    return (data / "ljspeech.mp3").read_bytes()


def joined(chunks: list[Audio]) -> torch.Tensor:
    return torch.cat([chunk.waveform for chunk in chunks], dim=1)


async def play(url: str, **options: Any) -> tuple[list[Audio], list[StreamEvent], Exception | None]:
    """All that comes, and the error that ends it: nothing else ends a station."""
    chunks, error = [], None
    async with Session(http=QUICK) as session:
        reader = session.open(url, **{"chunk_seconds": 0.5, **options})
        try:
            async for chunk in reader:
                chunks.append(chunk)  # noqa: PERF401
        except aioaudio.AudioError as raised:
            error = raised
    return chunks, [event for chunk in chunks for event in chunk.events], error


def seconds_before(data: bytes, offset: int) -> float:
    """What the packets hold that end before a byte."""
    with av.open(io.BytesIO(data)) as container:
        stream = container.streams.audio[0]
        num_samples = 0
        for packet in container.demux(stream):
            if packet.pos is None or packet.pos + packet.size > offset:
                break
            num_samples += sum(frame.samples for frame in packet.decode())
        return num_samples / stream.rate


# What stands between the bytes


@given(
    interval=st.integers(1, 400),
    num_bytes=st.integers(0, 2_000),
    cuts=st.lists(st.integers(1, 300), min_size=1),
    texts=st.dictionaries(st.integers(0, 8), st.text("abü' ;", min_size=1, max_size=40)),
)
def test_what_was_put_in_is_taken_out(interval: int, num_bytes: int, cuts: list[int], texts: dict[int, str]) -> None:
    audio = random.Random(0).randbytes(num_bytes)
    mixed = with_metadata(audio, interval, {number: f"StreamTitle='{text}';" for number, text in texts.items()})
    demixer, taken, told, at = Demixer(interval), bytearray(), {}, 0
    while at < len(mixed):
        size = cuts[at % len(cuts)]
        for part in demixer.push(mixed[at : at + size]):
            if isinstance(part, bytes):
                taken += part
            else:
                told[len(taken)] = part
        at += size
    assert taken == audio
    assert told == {
        (number + 1) * interval: {"StreamTitle": text}
        for number, text in texts.items()
        if (number + 1) * interval <= num_bytes
    }


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        (b"StreamTitle='Somebody - Something';", {"StreamTitle": "Somebody - Something"}),
        (
            b"StreamTitle='It's here';StreamUrl='http://x/?a=1';",
            {"StreamTitle": "It's here", "StreamUrl": "http://x/?a=1"},
        ),
        (b"StreamTitle='a'; b';StreamUrl='';", {"StreamTitle": "a'; b", "StreamUrl": ""}),
        (b"StreamTitle='\xc3\xbcber';", {"StreamTitle": "über"}),
        (b"StreamTitle='\xfcber';", {"StreamTitle": "über"}),
        (b"StreamTitle='no end", {"StreamTitle": "no end"}),
        (b"StreamTitle='no semicolon'", {"StreamTitle": "no semicolon"}),
        (b"StreamTitle='two\nlines';\0\0\0", {"StreamTitle": "two\nlines"}),
        (b"StreamTitle='", {"StreamTitle": ""}),
        (b"StreamTitle=;", {}),
        (b"\xff\xfe" * 2_040, {}),
        (b"", {}),
        (b"a" * 4_080, {}),
    ],
)
def test_the_fields_of_a_block(block: bytes, fields: dict[str, str]) -> None:
    assert fields_of(block) == fields


def test_the_headers_of_a_station() -> None:
    values = ["8192", " 16 ", "0", "-1", "many", "1e3", ""]
    assert [interval_of({"icy-metaint": value}) for value in values] == [8192, 16, *(None,) * 5]
    assert interval_of({}) is None
    assert header_text("caf\udce9") == "café"
    assert header_text("café") == "café"


# Titles


@pytest.mark.parametrize(
    ("kind", "content_type", "interval"),
    [("mp3", "audio/mpeg", 8_192), ("mp3", "audio/mpeg", 997), ("mp3", "", 100_000), ("adts", "audio/aacp", 4_000)],
)
@ASYNCIO
async def test_titles_come_where_they_were_sent(
    kind: str, content_type: str, interval: int, server: Server, media: MediaLibrary
) -> None:
    data = media.make(kind, seconds=6.0).path.read_bytes()
    texts: dict[int, str | bytes] = {number: f"StreamTitle='song {number}';" for number in range(0, 90, 2)}
    station = Station(
        with_metadata(data, interval, texts), interval=interval, content_type=content_type, piece_bytes=1_009
    )
    chunks, events, error = await play(server.add(station), sample_rate=16_000)
    whole = await aioaudio.load(data, sample_rate=16_000)
    assert isinstance(error, aioaudio.SourceError)
    # It broke off, so the last frame may lack what would have followed it.
    given = joined(chunks)
    assert whole.num_samples - given.shape[1] <= 0.1 * 16_000
    if kind != "adts":  # whose noise is random
        settled = given.shape[1] - 1_600
        assert given[:, :settled].equal(whole.waveform[:, :settled])
    first, *titles = events
    assert (first.kind, first.at_seconds, first.fields["icy-name"]) == ("station", 0.0, "Radio Loopback")
    offsets = [(number + 1) * interval for number in texts if (number + 1) * interval < len(data) - 1_000]
    assert [title.fields["StreamTitle"] for title in titles][: len(offsets)] == [
        f"song {offset // interval - 1}" for offset in offsets
    ]
    for title, offset in zip(titles, offsets, strict=False):
        assert abs(title.at_seconds - seconds_before(data, offset)) <= 1_200 / 48_000
    for chunk in chunks:
        end = chunk.start_seconds + chunk.duration_seconds
        assert all(chunk.start_seconds <= event.at_seconds < end for event in chunk.events)
    assert station.asked[0] == ("1", None)


@ASYNCIO
async def test_chunks_that_overlap_or_skip_lose_no_title(server: Server, speech: bytes) -> None:
    body = with_metadata(speech, 3_000, {number: f"StreamTitle='{number}';" for number in range(12)})
    for hop, start in ((0.1, 0.0), (1.3, 0.0), (0.5, 2.0)):
        url = server.add(Station(body, interval=3_000))
        _, events, _ = await play(url, chunk_seconds=0.4, hop_seconds=hop, start_seconds=start)
        titles = [event.fields["StreamTitle"] for event in dict.fromkeys(events) if event.kind == "metadata"]
        assert titles == [str(number) for number in range(len(titles))]
        assert len(titles) >= 10


@ASYNCIO
async def test_titles_that_say_the_same_are_one(server: Server, speech: bytes) -> None:
    body = with_metadata(speech, 3_000, dict.fromkeys(range(12), "StreamTitle='It's this';"))
    _, events, _ = await play(server.add(Station(body, interval=3_000)))
    assert [event.kind for event in events] == ["station", "metadata"]
    assert events[1].fields == {"StreamTitle": "It's this"}


@ASYNCIO
async def test_a_station_of_opus_has_a_name_and_no_titles(server: Server, data: Path) -> None:
    body = (data / "jfk.opus").read_bytes()
    chunks, events, error = await play(server.add(Station(body, content_type="application/ogg")))
    whole = await aioaudio.load(data / "jfk.opus")
    assert isinstance(error, aioaudio.SourceError)
    assert joined(chunks).equal(whole.waveform)
    assert [event.kind for event in events] == ["station"]


@pytest.mark.parametrize("status_line", [b"ICY 200 OK", b"HTTP/1.0 200 OK"])
@ASYNCIO
async def test_old_servers_are_understood(status_line: bytes, speech: bytes) -> None:
    """They answer with a protocol of their own, and headers without a space."""
    body = with_metadata(speech, 8_192, {0: "StreamTitle='old';"})
    head = status_line + b"\r\nicy-notice1:<BR>This stream\r\nicy-name:Caf\xe9\r\nicy-metaint:8192\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in (head[:1], head[1:3], head[3:40], head[40:] + body):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()
        server.close()  # so that it is not there when it is connected to again

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    _, events, error = await play(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert isinstance(error, aioaudio.FetchError)
    assert [event.kind for event in events] == ["station", "metadata"]
    assert events[0].fields["icy-name"] == "Café"
    await server.wait_closed()


@ASYNCIO
async def test_only_open_asks_for_titles(server: Server, speech: bytes) -> None:
    asked = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(request.headers.get("Icy-MetaData"))
        return web.Response(body=speech)

    url = server.add(handler)
    await aioaudio.load(url)
    await aioaudio.info(url)
    chunks, events, error = await play(url)
    assert asked == [None, None, "1"]
    assert (events, error) == ([], None)
    assert joined(chunks).equal((await aioaudio.load(speech)).waveform)


# Reconnects


@pytest.mark.parametrize(("kind", "content_type"), [("mp3", "audio/mpeg"), ("adts", "audio/aac"), ("opus", "")])
@ASYNCIO
async def test_a_station_that_breaks_off_goes_on(
    kind: str, content_type: str, server: Server, media: MediaLibrary
) -> None:
    """Cut inside a frame, and joined inside another: neither is damage. Ogg is joined at its headers, as servers do."""
    data = media.make(kind, seconds=4.0).path.read_bytes()
    half, begin = len(data) // 2 + 77, 0 if kind == "opus" else len(data) // 4 + 99
    station = Station(data[:half], b"", data[begin:], content_type=content_type)
    chunks, events, error = await play(server.add(station), on_damage="raise")
    assert isinstance(error, aioaudio.SourceNotFound)
    assert error.status == 404
    assert len(station.asked) == 3 + QUICK.retries
    assert set(station.asked) == {("1", None)}
    assert [event.kind for event in events] == ["station", "reconnect"]
    assert [damage for chunk in chunks for damage in chunk.damage] == []
    again = events[1]
    assert again.at_seconds == pytest.approx(seconds_before(data, half), abs=1.0 if kind == "opus" else 0.03)
    assert float(again.fields["seconds"]) >= 0
    rest = 4.0 - (seconds_before(data, begin) if begin else 0)
    length = sum(chunk.duration_seconds for chunk in chunks)
    assert length == pytest.approx(again.at_seconds + rest, abs=0.1)


@ASYNCIO
async def test_a_station_is_counted_anew_with_each_byte(server: Server, speech: bytes) -> None:
    station = Station(*([speech[:9_000], b""] * 4), then=503)
    _, events, error = await play(server.add(station))
    assert [event.kind for event in events] == ["station", *["reconnect"] * 3]
    assert isinstance(error, aioaudio.FetchError)
    assert error.status is None or error.status == 503


@pytest.mark.parametrize("size", [0, 3, 100])
@ASYNCIO
async def test_a_station_that_has_hardly_begun_goes_on(size: int, server: Server, speech: bytes) -> None:
    station = Station(speech[:size], speech, speech[:size], speech)
    chunks, events, error = await play(server.add(station))
    assert isinstance(error, aioaudio.SourceNotFound)
    assert sum(chunk.duration_seconds for chunk in chunks) == pytest.approx(2 * 5.14, abs=0.2)
    assert [event.kind for event in events][:1] == ["station"]


@ASYNCIO
async def test_what_breaks_off_and_must_be_there_as_a_whole_is_an_error(server: Server, data: Path) -> None:
    body = (data / "jfk.m4a").read_bytes()
    chunks, _, error = await play(server.add(Station(body[:9_000], body)), format="caf")
    assert chunks == []
    assert isinstance(error, aioaudio.FetchError)


@ASYNCIO
async def test_a_station_may_be_left_at_any_time(server: Server, speech: bytes) -> None:
    """While it is silent, and while it is waited for until it is connected to again."""
    silent, gone = Station(speech, stays=True), Station(speech[:9_000], then=503)
    async with Session(http=HTTPOptions(backoff=1_000, retries=9)) as session:
        for station in (silent, gone):
            reader = session.open(server.add(station), chunk_seconds=0.25)
            await anext(reader)
            task = asyncio.ensure_future(reader.read(10_000_000))
            await asyncio.to_thread((station.silent if station is silent else station.left).wait)
            await reader.aclose()
            with pytest.raises(aioaudio.ClosedError):
                await task
            await asyncio.to_thread(station.left.wait)


@ASYNCIO
async def test_a_silent_station_is_a_timeout_behind_what_has_come(server: Server, speech: bytes) -> None:
    station, chunks = Station(speech, stays=True), []
    async with Session(http=HTTPOptions(read_timeout=0.1, backoff=0.001)) as session:
        with pytest.raises(aioaudio.AudioTimeout):  # noqa: PT012
            async for chunk in session.open(server.add(station), chunk_seconds=0.5):
                chunks.append(chunk)  # noqa: PERF401
    assert sum(chunk.duration_seconds for chunk in chunks) >= 4.9
    assert len(station.asked) == 1


# The example

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "record_radio.py"


def recorded(folder: Path) -> tuple[torch.Tensor, list[list[str]]]:
    """All samples, and the rows of all lists; each file must be whole."""
    samples, rows = [], []
    for path in sorted(folder.glob("*.wav"), key=lambda path: (path.stem[:19], len(path.stem), path.stem)):
        samples.append(aioaudio.sync.load(path, dtype=torch.int16).waveform)
        with path.with_suffix(".csv").open(newline="") as text:
            rows += list(csv.reader(text))[1:]
    return torch.cat(samples, dim=1), rows


def heed_interrupts() -> None:
    """A suite that was started in the background ignores them, and so would its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@ASYNCIO
async def test_a_radio_is_recorded_until_ctrl_c(server: Server, speech: bytes, tmp_path: Path) -> None:
    body = with_metadata(speech, 3_000, {2: "StreamTitle='It's one';", 8: "StreamTitle='two';"})
    station = Station(body, interval=3_000, stays=True)
    command = [sys.executable, "-W", "error", str(EXAMPLE), server.add(station), "--into", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--seconds-per-file",
        "2",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_interrupts,
    )
    assert process.stdout is not None
    for _ in range(3):
        await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    samples, rows = await asyncio.to_thread(recorded, tmp_path)
    whole = await aioaudio.load(speech, dtype=torch.int16)
    length = samples.shape[1]
    assert length > 4 * whole.sample_rate
    assert samples[:, : length - 2_000].equal(whole.waveform[:, : length - 2_000])
    assert [row[1:] for row in rows][:3] == [
        ["station", "Radio Loopback"],
        ["metadata", "It's one"],
        ["metadata", "two"],
    ]
