"""A source as audio that arrives, chunk by chunk or as it is asked for.

operations    `open`: its options
reader        what the consumer holds: for event loops, and for code without
reading       the place where a reader is, and what it asks for
serving       the work, on the I/O thread: one order after another, and a little ahead
"""

from aioaudio.stream.operations import StreamOperations
from aioaudio.stream.reader import AudioReader, BlockingAudioReader

__all__ = ["AudioReader", "BlockingAudioReader", "StreamOperations"]
