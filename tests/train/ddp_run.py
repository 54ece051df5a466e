"""One small training on `devices` CPU processes; rank 0 stores weights and losses.

Usage: python -m tests.train.ddp_run KIND DEVICES OUT
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import torch
from tests.train.synthetic import pairs, toy_data, toy_module, trainer

from toolheads_train.data.corpus import build_corpus
from toolheads_train.loop.module import HeadsModule
from toolheads_train.settings import HeadSettings

KINDS = {
    "in_batch": (HeadSettings(hidden=(8,)), {}),
    "catalogue": (
        HeadSettings(hidden=(8,), widths=(4,), centre="corpus"),
        {
            "negatives": "catalogue",
            "refresh_steps": 3,
            "catalogue_sample": 20,
            "same_side": 0.5,
            "distance_penalty": 0.1,
        },
    ),
}


def run(kind: str, devices: int, out: str) -> None:
    """Eight steps on a corpus where masks, hard negatives and both directions matter."""
    warnings.filterwarnings("ignore")
    source = pairs(24, negatives=[[(row + 5) % 24, (row + 9) % 24] for row in range(24)])
    corpus = build_corpus([source])
    data = toy_data(batch_size=12, steps=4, chunk=3, corpus=corpus)
    data.sampling = type(data.sampling)(batch_size=12, steps_per_epoch=4, hard_negatives=2)
    head, loss = KINDS[kind]
    module = toy_module(mask_margin=0.05)
    module = HeadsModule(head, replace(module.loss, **loss), module.optimizer)
    fitter = trainer(None, epochs=2, devices=devices, strategy="ddp" if devices > 1 else "auto")
    fitter.fit(module, datamodule=data)
    if fitter.is_global_zero:
        weights = {name: value.detach() for name, value in module.heads.state_dict().items()}
        found = {"weights": weights, "loss": fitter.callback_metrics["train/loss"]}
        torch.save({**found, "steps": fitter.global_step}, out)


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
