"""What FFmpeg's messages and the counts of samples say about damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aioaudio.audio import Damage
from aioaudio.decode.facts import Facts
from aioaudio.ffmpeg import LogMessage

__all__ = ["Failure", "about_audio", "assess", "assess_so_far", "is_loss"]

_MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class Failure:
    """A packet that FFmpeg complained of: the samples decoded before it and with it, how it begins, and its size."""

    before: int
    after: int
    message: str
    head: bytes = b""
    num_bytes: int = 0


def is_loss(damage: Damage) -> bool:
    """Whether samples are missing or wrong; junk beside them is not."""
    return damage.kind != "junk"


def about_audio(messages: list[LogMessage], codec: str, container: str) -> list[str]:
    """The messages of this codec and container. Pictures and tags beside the audio log under other names."""
    return [
        text.strip()
        for _, logger, text in messages
        # One bit too many read from the last packet: FFmpeg says so of many clean Vorbis files, and drops nothing.
        if (logger == codec or container.split(",")[0] in logger.split(","))
        and not (codec == "vorbis" and "Overread" in text)
    ]


def assess(failures: list[Failure], facts: Facts, num_samples: int, *, whole: bool) -> tuple[Damage, ...]:
    """What `failures` mean once `num_samples` have been decoded; `whole` if that was up to the end of the file."""
    promised = facts.num_samples
    complete = promised is not None and num_samples >= promised
    damage = [*_placed(facts.damage, num_samples / facts.sample_rate, whole=whole, complete=complete)]
    is_cut = any(item.kind == "truncated" and item.at_seconds is None for item in facts.damage)
    for failure in failures:
        at_end = whole and failure.after == num_samples
        is_pad = at_end and failure.before == num_samples and failure.num_bytes == 1
        if is_pad or (at_end and is_cut):  # behind an odd number of bytes; or it is the packet that is cut
            continue
        damage.append(
            _judge(failure, facts, complete=complete and at_end, last=at_end and failure.before == num_samples)
        )
    # The encoder's count may be off by a frame where it pads; elsewhere it is exact. A loss that the header has placed
    # explains what is missing.
    tolerance = facts.frame_samples if facts.slack else 0
    if whole and promised is not None and num_samples < promised - tolerance and not any(map(is_loss, facts.damage)):
        at_seconds = num_samples / facts.sample_rate
        damage.append(Damage(at_seconds, "truncated", f"holds {num_samples} of the {promised} samples it promises"))
    return _merged(damage)


def assess_so_far(failures: list[Failure], facts: Facts, num_samples: int) -> tuple[Damage, ...]:
    """The part of `assess` that what follows the `num_samples` decoded so far cannot change."""
    placed = [item for item in facts.damage if item.kind != "truncated" or item.at_seconds is not None]
    settled = [failure for failure in failures if failure.after < num_samples]
    return _merged([*placed, *(_judge(failure, facts, complete=False, last=False) for failure in settled)])


def _placed(damage: tuple[Damage, ...], end_seconds: float, *, whole: bool, complete: bool) -> Iterator[Damage]:
    """`damage`, where a cut at a place that the header cannot tell is at the end of what decodes; none at all where
    decoding came to its end before, or all that is promised is there."""
    for item in damage:
        if item.kind != "truncated" or item.at_seconds is not None:
            yield item
        elif whole and not complete:
            yield replace(item, at_seconds=end_seconds)


def _judge(failure: Failure, facts: Facts, *, complete: bool, last: bool) -> Damage:
    """`complete` if the failure is at the end and all samples are there, `last` if none came after it."""
    at_seconds = failure.before / facts.sample_rate
    if "CRC" in failure.message:
        # The frame is one of those between here and the next packet.
        return Damage(at_seconds, "checksum", "what is encoded does not match its checksum")
    if complete or (last and facts.codec.startswith("mp") and not _is_frame_start(failure.head)):
        end_seconds = failure.after / facts.sample_rate
        return Damage(end_seconds, "junk", f"bytes after the end that are no audio ({failure.message})")
    if failure.before <= facts.frame_samples and "invalid new backstep" in failure.message:
        return Damage(at_seconds, "junk", "cut from a stream: its first frame leans on bytes that are not here")
    if last and facts.container != "flac" and "patches welcome" not in failure.message:  # what FFmpeg lacks is not cut
        return Damage(at_seconds, "truncated", f"the last packet does not decode ({failure.message})")
    return Damage(at_seconds, "undecodable", failure.message)


def _is_frame_start(head: bytes) -> bool:
    """Whether an MPEG audio frame begins with `head`."""
    return len(head) >= 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0


def _merged(damage: list[Damage]) -> tuple[Damage, ...]:
    """One entry for each place and kind: a broken stretch fails packet by packet."""
    merged: dict[tuple[float | None, str], Damage] = {}
    for item in damage:
        merged.setdefault((item.at_seconds, item.kind), item)
    return tuple(merged.values())[:_MAX_LISTED]
