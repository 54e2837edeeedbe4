"""The owner of workers, and the operations: each checks its options, and leaves the work to the floors below."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

import torch

from aioaudio.audio import Audio, AudioInfo, Clip, clip_of
from aioaudio.batch import load_onto
from aioaudio.decode import Leave
from aioaudio.device import DeviceOptions, as_device
from aioaudio.encoded import Encoded
from aioaudio.errors import ClosedError
from aioaudio.fetch import HTTPOptions, Source, fetch
from aioaudio.lazy import LazyAudio, begin
from aioaudio.loading import describe, load_audio
from aioaudio.many import ManyOperations
from aioaudio.options import LoadOptions, RawPCM, as_channels, check_timeout
from aioaudio.stream import StreamOperations
from aioaudio.workers import Workers, default_workers

__all__ = ["Session", "default_session"]


class Session(ManyOperations, StreamOperations):
    """Read and decode threads of one's own, and the operations of aioaudio on them.

    `read_threads` (default 16) is how many sources are read at once, `decode_threads` how many are decoded at once
    (default: the CPUs that this process may use, divided by torchrun's LOCAL_WORLD_SIZE and by the number of DataLoader
    workers when inside one). `http` says how URLs are fetched. Threads start with the first operation. The functions of
    the package, such as `aioaudio.load`, are the methods of a default session that all share; make one's own to set any
    of these.

    An async context manager: leaving it calls `aclose()`. May be used from several event loops in several threads.
    """

    def __init__(
        self,
        *,
        read_threads: int | None = None,
        decode_threads: int | None = None,
        http: HTTPOptions | None = None,
    ) -> None:
        if http is not None and not isinstance(http, HTTPOptions):
            raise TypeError(f"http must be HTTPOptions, not {type(http).__name__}")
        self._own_workers: Workers | None = Workers(read_threads=read_threads, decode_threads=decode_threads, http=http)

    @property
    def workers(self) -> Workers:
        """The threads that do the work."""
        assert self._own_workers is not None
        return self._own_workers

    async def load(
        self,
        source: Source | Clip,
        *,
        start_seconds: float = 0,
        stop_seconds: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        out: torch.Tensor | None = None,
        device: torch.device | str | None = None,
        resample_on: Literal["cpu", "device"] = "cpu",
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> Audio:
        """Decode a source, or a part of it, to a waveform.

        Args:
            source: A path; a URL (a `str` that begins with http:// or https://, or an `aioaudio.URL`); encoded bytes
                (bytes-like, or a uint8 tensor); a binary file-like object, read from its position to its end, or an
                async one (aiofiles, Starlette's upload); an async iterable of bytes; an `Encoded`; or a `Clip` of one
                of these.
            start_seconds: Where the result begins, in seconds from the first sample of the source.
            stop_seconds: Where it ends; None is the end of the source. With r the rate of the result, it is exactly
                `whole[:, round(start_seconds * r) : round(stop_seconds * r)]`, half up. Past the end it is shorter,
                or empty.
            sample_rate: Rate of the result in Hz; None is the source's.
            num_channels: Mix to so many channels; None keeps those of the source. Mono is the mean of two channels;
                surround follows the ITU downmix, normalised; mono to several copies.
            channels: Pick these channels, by index from 0, in this order, instead of mixing.
            dtype: `torch.float32`, `float16`, `bfloat16`, `float64` (full scale is ±1; decoded values beyond it are
                kept), `int16` or `int32` (full scale is the range of the type, saturating).
            track: Index of an audio track from 0, or its language as in the file ("eng"); None is the default track.
            format: Name of an FFmpeg demuxer where the file's own bytes do not tell, or a `RawPCM`.
            on_damage: What to do when samples are missing or wrong: "raise" a `DamagedAudioError`, which carries what
                decoded, or "conceal": go on, and list it in `Audio.damage`.
            verify: Check what was decoded against what the file stores: the MD5 of a whole FLAC, the frame checksums of
                a FLAC range, the page checksums of Ogg, the block checksums of WavPack. `Audio.verified` says which.
                Slower, and some decoding then holds the GIL.
            out: A CPU tensor `(num_channels, num_samples)` of this `dtype`, with any strides, to write into; it
                becomes the waveform. A wrong dtype or number of dimensions fails before anything is read. With
                `device`, a tensor there.
            device: Where the waveform is to be; None is the CPU. To a CUDA device it goes on a side stream, and the
                stream that is current where this is awaited waits for it, not the host.
            resample_on: "cpu", or "device": resample there, where there is a `device`. Equal to 2e-6 of full scale.
            max_seconds: Refuse a result that is longer, in seconds.
            max_bytes: Refuse a source that is larger, in bytes.
            timeout: Seconds that reading may take, and that decoding may take, each counted from when a worker
                begins. For the whole there is `asyncio.timeout`.

        Returns:
            An `Audio`; its waveform is `(num_channels, num_samples)`, contiguous, on `device`. It unpacks to
            `(waveform, sample_rate)`.

        Raises:
            SourceError: The bytes cannot be had; `SourceNotFound`, `SourceDenied` and `FetchError` are such.
            CorruptAudioError: Nothing decodes.
            UnsupportedAudioError: There is no audio track, or no decoder for it.
            DamagedAudioError: Only a part decodes, and `on_damage="raise"`.
            LimitError: It is larger than `max_seconds` or `max_bytes`. Nothing is ever cut.
            AudioTimeout: It took longer than `timeout`.
            ValueError, TypeError: An option is wrong, or does not fit this source.
            ClosedError: The session is closed.

        Cancellation ends the await at once, and what has not begun never does; only with `out` it first waits until no
        thread writes there any more.
        """
        clip = clip_of(source, start_seconds, stop_seconds, track)
        where = DeviceOptions(device=device, resample_on=resample_on)
        options = LoadOptions(
            start_seconds=clip.start_seconds,
            stop_seconds=clip.stop_seconds,
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=as_channels(channels),
            dtype=dtype,
            track=clip.track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            out=out,
            device=as_device(where.device),
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )
        check_timeout(timeout)
        transfer = where.shared_transfer()
        if transfer is None:
            audio = await load_audio(self.workers, clip.source, options, timeout)
        else:
            leave = Leave(resampling=resample_on == "device")
            audio = await load_onto(self.workers, clip.source, replace(options, out=None), timeout, transfer, leave)
            if out is not None:
                audio = _copied(audio, out)
        return replace(audio, clip=clip) if clip is source else audio

    def submit(
        self,
        source: Source | Clip,
        *,
        start_seconds: float = 0,
        stop_seconds: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        max_seconds: float | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> LazyAudio:
        """Begin a load and return at once, with or without an event loop, in any thread.

        All options are as in `load`. There is no `device`, and no `out`: while the load goes on, threads would write
        into your tensor, with nothing that you await to say when they have let go of it. Leave the source alone until
        the load is done: a file that is closed meanwhile fails. An async source is awaited on the event loop that runs
        where `submit` is called, or on the library's own where none does.

        Returns:
            A `LazyAudio`: `await lazy` and `lazy.result()` give the `Audio`, and used as a tensor it waits for its
            samples. Dropping it cancels the load.

        Raises, at once, ValueError and TypeError for wrong options and for what is no source, and ClosedError; with the
        first use, what `load` raises.
        """
        clip = clip_of(source, start_seconds, stop_seconds, track)
        options = LoadOptions(
            start_seconds=clip.start_seconds,
            stop_seconds=clip.stop_seconds,
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=as_channels(channels),
            dtype=dtype,
            track=clip.track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            max_seconds=max_seconds,
            max_bytes=max_bytes,
        )
        check_timeout(timeout)
        return begin(self.workers, clip.source, options, timeout, clip if clip is source else None)

    async def info(
        self,
        source: Source | Clip,
        *,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        exact: bool = False,
        timeout: float | None = None,
    ) -> AudioInfo:
        """Describe a source without decoding it: container, codec, rate, channels, length, tags, tracks.

        `source`, `track`, `format` and `timeout` are as in `load`. With `exact=True` the samples are counted by
        decoding them all and keeping none; then `num_samples` is what `load` gives (what `on_damage="conceal"` gives,
        for a damaged source). A length that is not known is None; `duration_from` says where it comes from. Of a
        `Clip` the whole source is described.

        Raises what `load` raises, but for DamagedAudioError.
        """
        if isinstance(source, Clip):
            clip = source
            source, track = clip.source, clip.track if track is None else track
        options = LoadOptions(track=track, format=format)
        check_timeout(timeout)
        return await describe(self.workers, source, options, exact=exact, timeout=timeout)

    async def fetch(self, source: Source, *, max_bytes: int | None = None, timeout: float | None = None) -> Encoded:
        """Read all bytes of a source without decoding them: the first step of `load`, for whoever keeps or ships them.

        `source` is as in `load`, but no `Clip`. Raises SourceError, LimitError beyond `max_bytes`, and AudioTimeout
        after `timeout` seconds of reading.
        """
        LoadOptions(max_bytes=max_bytes)
        check_timeout(timeout)
        return await fetch(source, self.workers, max_bytes=max_bytes, timeout=timeout)

    async def decode(
        self,
        encoded: Encoded | bytes,
        *,
        start_seconds: float = 0,
        stop_seconds: float | None = None,
        sample_rate: int | None = None,
        num_channels: int | None = None,
        channels: Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        track: int | str | None = None,
        format: str | RawPCM | None = None,
        on_damage: Literal["raise", "conceal"] = "raise",
        verify: bool = False,
        out: torch.Tensor | None = None,
        device: torch.device | str | None = None,
        resample_on: Literal["cpu", "device"] = "cpu",
        max_seconds: float | None = None,
        timeout: float | None = None,
    ) -> Audio:
        """Decode what `fetch` has read: the second step of `load`, with its options, result and errors.

        An `Encoded` may be decoded many times, by many tasks at once.
        """
        if not isinstance(encoded, Encoded | bytes):
            raise TypeError(f"encoded must be an Encoded or bytes, not {type(encoded).__name__}: load takes the others")
        return await self.load(
            encoded,
            start_seconds=start_seconds,
            stop_seconds=stop_seconds,
            sample_rate=sample_rate,
            num_channels=num_channels,
            channels=channels,
            dtype=dtype,
            track=track,
            format=format,
            on_damage=on_damage,
            verify=verify,
            out=out,
            device=device,
            resample_on=resample_on,
            max_seconds=max_seconds,
            timeout=timeout,
        )

    async def aclose(self) -> None:
        """Cancel what is queued, stop what runs, and wait for the threads. May be called again."""
        await self.workers.aclose()

    async def __aenter__(self) -> Self:
        if self.workers.closed:
            raise ClosedError("the session is closed")
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        workers = getattr(self, "_own_workers", None)
        if workers is not None and workers.started and not workers.closed:
            # The threads end with the workers, which go with this object; to close them here could meet a held lock.
            warnings.warn(
                f"unclosed {self!r}: use 'async with' or aclose()", ResourceWarning, source=self, stacklevel=2
            )


def _copied(audio: Audio, out: torch.Tensor) -> Audio:
    if out.shape != audio.waveform.shape:
        shapes = f"the shape {tuple(out.shape)}, the audio has {tuple(audio.waveform.shape)}"
        raise ValueError(f"{audio.source}: out has {shapes}")
    return replace(audio, waveform=out.copy_(audio.waveform))


class _DefaultSession(Session):
    """The session behind the functions of the package; its workers are the process's, made anew after `aclose()`."""

    def __init__(self) -> None:
        self._own_workers = None

    @property
    def workers(self) -> Workers:
        return default_workers()


_default_session = _DefaultSession()


def default_session() -> Session:
    """The session that the functions of the package use."""
    return _default_session
