"""One rank of two, started by torchrun: writes which clips came in which batches of two epochs.

With "leave" the first rank breaks off in the first epoch, and each writes how its run ended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torch import distributed

import aioaudio

folder, uneven = Path(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo")


def leave(batches: aioaudio.BlockingResults[aioaudio.Batch]) -> str:
    with batches:
        try:
            for _ in batches:
                if distributed.get_rank() == 0:
                    return "left"
        except RuntimeError as error:
            return str(error)
    return "exhausted"


clips = json.loads((folder / "clips.json").read_text("utf-8"))
if uneven == "leave":
    batches = aioaudio.sync.batches(clips, batch_size=1, shard="auto", uneven="drop", on_error="skip")
    (folder / f"{distributed.get_rank()}.json").write_text(json.dumps(leave(batches)))
    distributed.barrier()
    distributed.destroy_process_group()
    sys.exit()
epochs: list[list[list[str]]] = []
for epoch in range(2):
    with aioaudio.sync.batches(
        clips, batch_size=2, epoch=epoch, shard="auto", uneven=uneven, on_error="skip"
    ) as batches:
        epochs.append([[clip.source for clip in batch.clips] for batch in batches])
(folder / f"{distributed.get_rank()}.json").write_text(json.dumps(epochs))
distributed.destroy_process_group()
