"""Files that name other files or hosts, in every way that FFmpeg's demuxers know."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["hostile_files", "targets"]


def targets(canary: Path, port: int) -> dict[str, str]:
    """Ways to name the canary file and the canary host."""
    return {
        "relative": canary.name,
        "dotted": f"./{canary.name}",
        "absolute": str(canary),
        "file": f"file:{canary}",
        "file url": f"file://{canary}",
        "concat": f"concat:{canary}|{canary}",
        "concatf": f"concatf:{canary}",
        "subfile": f"subfile,,start,0,end,0,,:{canary}",
        "crypto": f"crypto:{canary}",
        "cache": f"cache:{canary}",
        "async": f"async:{canary}",
        "hls": f"hls+file:{canary}",
        "http": f"http://127.0.0.1:{port}/canary.wav",
        "tcp": f"tcp://127.0.0.1:{port}",
        "rtmp": f"rtmp://127.0.0.1:{port}/live",
        "rtsp": f"rtsp://127.0.0.1:{port}/canary",
        "ftp": f"ftp://127.0.0.1:{port}/canary.wav",
        "gopher": f"gopher://127.0.0.1:{port}/1",
    }


_SCRIPTS = {
    "m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    "master.m3u8": '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1,CODECS="mp4a.40.2"\n{target}\n',
    "map.m3u8": '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXT-X-MAP:URI="{target}"\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n',
    "key.m3u8": '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXT-X-KEY:METHOD=AES-128,URI="{target}",IV=0x0\n#EXTINF:10,\n'
    "{target}\n#EXT-X-ENDLIST\n",
    "media.m3u8": '#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="x",DEFAULT=YES,URI="{target}"\n'
    '#EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="a"\n{target}\n',
    "ffconcat": "ffconcat version 1.0\nfile '{target}'\n",
    "options.ffconcat": "ffconcat version 1.0\nfile '{target}'\noption safe 0\noption protocol_whitelist "
    "file,http,tcp\n",
    "mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration='
    '"PT10S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period><AdaptationSet mimeType="audio/mp4">'
    '<Representation id="1" bandwidth="1"><BaseURL>{target}</BaseURL></Representation></AdaptationSet></Period></MPD>',
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\na=control:{target}\n"
    "m=audio 5004 RTP/AVP 0\n",
    "pls": "[playlist]\nFile1={target}\nNumberOfEntries=1\n",
    "asx": '<asx version="3.0"><entry><ref href="{target}"/></entry></asx>',
    "ram": "{target}\n",
    "smil": '<smil><body><audio src="{target}"/></body></smil>',
    "xspf": '<playlist xmlns="http://xspf.org/ns/0/"><trackList><track><location>{target}</location></track></trackList>'
    "</playlist>",
    "cpl.xml": '<?xml version="1.0"?><CompositionPlaylist xmlns="http://www.smpte-ra.org/schemas/2067-3/2016"><Id>{target}'
    "</Id></CompositionPlaylist>",
    "webm_dash": '<?xml version="1.0"?><MPD><BaseURL>{target}</BaseURL></MPD>',
    "lavfi": "amovie={target}",
    "ffmeta": ";FFMETADATA1\nfile={target}\n",
    "idx": "# VobSub index file, v7\nid: {target}, index: 0\n",
}


def hostile_files(target: str, m4a: bytes) -> Iterator[tuple[str, bytes]]:
    """The kind and the bytes of each file that refers to `target`; `m4a` is an intact one to be turned into such."""
    for kind, script in _SCRIPTS.items():
        yield kind, script.format(target=target).encode()
    yield "m3u8 behind a tag", b"ID3\x04\0\0\0\0\0\0" + _SCRIPTS["m3u8"].format(target=target).encode()
    yield "m3u8 in UTF-8 with a mark", b"\xef\xbb\xbf" + _SCRIPTS["m3u8"].format(target=target).encode()
    yield "m3u8 in wav", b"RIFF\0\0\0\0WAVE" + _SCRIPTS["m3u8"].format(target=target).encode()
    yield "dref url", _with_data_reference(m4a, _box(b"url ", bytes(4) + target.encode() + b"\0"))
    yield "dref alias", _with_data_reference(m4a, _box(b"alis", _alias(target)))
    yield "rmra", _reference_movie(b"url ", target)
    yield "rmra alias", _reference_movie(b"alis", target)


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", 8 + len(body)) + kind + body


def _alias(target: str) -> bytes:
    """A Macintosh alias record (Inside Macintosh: Files, 1-5) to `target`, as QuickTime stores it in a `dref`."""
    name = target.rsplit("/", 1)[-1].encode()[:63]
    path = target.encode()
    record = struct.pack(">4sHHH", bytes(4), 150 + len(path), 2, 0)  # creator, size, version, kind: a file
    record += bytes([0]) + bytes(27) + struct.pack(">I", 0) + bytes(4)  # volume, its date, file system
    record += bytes([0, 0]) + bytes(4) + bytes([len(name)]) + name.ljust(63, b"\0")
    record += bytes(16) + struct.pack(">hh", 1, 1) + bytes(16)  # how far up to the common folder, and down
    record += struct.pack(">hH", 2, len(path)) + path + b"\0" * (len(path) % 2)
    record += struct.pack(">hH", 18, len(path)) + path + b"\0" * (len(path) % 2)
    return bytes(4) + record + struct.pack(">hH", -1, 0)


def _with_data_reference(m4a: bytes, entry: bytes) -> bytes:
    """`m4a`, whose samples are said to lie where `entry` points to; sizes of the boxes around are put right."""
    at = m4a.index(b"dref") - 4
    size = int.from_bytes(m4a[at : at + 4], "big")
    reference = _box(b"dref", bytes(4) + struct.pack(">I", 1) + entry)
    data = bytearray(m4a[:at] + reference + m4a[at + size :])
    for kind in (b"moov", b"trak", b"mdia", b"minf", b"dinf"):
        start = m4a.rindex(kind, 0, at) - 4
        old = int.from_bytes(m4a[start : start + 4], "big")
        data[start : start + 4] = struct.pack(">I", old + len(reference) - size)
    return bytes(data)


def _reference_movie(kind: bytes, target: str) -> bytes:
    """A QuickTime reference movie: no tracks, only descriptions of where the movie is (QuickTime File Format, rmra)."""
    text = target.encode() + b"\0"
    reference = _box(b"rdrf", bytes(4) + kind + struct.pack(">I", len(text)) + text)
    return _box(b"ftyp", b"qt  \0\0\0\0qt  ") + _box(b"moov", _box(b"rmra", _box(b"rmda", reference)))
