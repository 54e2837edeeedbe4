"""Train with Lightning. Needs it: pip install lightning"""

from __future__ import annotations

import sys

import torch
from speakers import OPTIONS, Network, accuracy, make_clips, speakers_of
from torch.utils.data import DataLoader

import aioaudio

try:
    import lightning
except ImportError:
    sys.exit("this example needs Lightning: pip install lightning")


class Speakers(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def training_step(self, batch: aioaudio.Batch) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.network(batch.waveforms), speakers_of(batch))

    def transfer_batch_to_device(self, batch: aioaudio.Batch, device: torch.device, _: int) -> aioaudio.Batch:
        return batch.to(device)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.03)


def main() -> None:
    torch.manual_seed(0)
    module = Speakers()
    dataset = aioaudio.AudioIterableDataset(make_clips(8), shuffle=True, **OPTIONS)
    trainer = lightning.Trainer(max_epochs=8, accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.fit(module, DataLoader(dataset, batch_size=None, num_workers=0))
    print(f"after training: {accuracy(module.network):.0%} right")


if __name__ == "__main__":
    main()
