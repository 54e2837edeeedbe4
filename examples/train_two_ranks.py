"""Train on several ranks, each with its share of the clips, and as many batches on all of them:

torchrun --nproc-per-node=2 examples/train_two_ranks.py
"""

from __future__ import annotations

import torch
from speakers import OPTIONS, Network, accuracy, make_clips, step
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import aioaudio


def main() -> None:
    distributed.init_process_group("gloo")
    torch.manual_seed(0)
    network = DistributedDataParallel(Network())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.03)
    clips = [*make_clips(8), *make_clips(1)[:1]]  # of an odd number, one rank has a batch more than the other
    with aioaudio.sync.batches(clips, shuffle=True, epochs=8, shard="auto", uneven="repeat", **OPTIONS) as batches:
        num_batches = 0
        for batch in batches:
            step(network, optimizer, batch)
            num_batches += 1
    right = accuracy(network.module)
    print(f"rank {distributed.get_rank()}: {num_batches} batches, {right:.0%} right", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
