#!/usr/bin/env python3
"""Writes what PyTorch computes with the network of package resnet, for
resnet/torch_test.go:

    python3 bench/peers/resnet_golden.py resnet/testdata/torch.safetensors

Two images of 96x96, mean squared error against a random grid, ten steps of Adam
without clipping, the batch statistics of training throughout. The file holds

    image                   uint8 [2, 96, 96, 3]; the network sees (image - 128) / 64
    target                  the grids, [2, 144]
    init.NAME               parameters and running statistics at the start
    activation.PLACE        outputs of step 1, channels last
    output                  of step 1, [2, 144]
    gradient.NAME           of step 1
    losses32, losses64      of the ten steps in float32 and in float64
    later.NAME              steps 2 to 10: norm, mean and 16 entries of the gradient
    final.NAME              running statistics after the ten steps
    evaluation              output after them with the running statistics

Everything but losses32 is computed in float64 from parameters that float32
holds exactly; what is large is stored as float32. The file's metadata names the
versions.
"""

import json
import platform
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

STEPS, RATE, ENTRIES = 10, 1e-3, 16


class BasicBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + x)


class Network(nn.Module):
    """The paper's network: torchvision's resnet18 up to layer1."""

    def __init__(self, grid=12, channels=64):
        super().__init__()
        self.grid = grid
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.layer1 = nn.Sequential(BasicBlock(channels), BasicBlock(channels))

    def forward(self, x, keep=None):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        activations = {"stem": x}
        for i, block in enumerate(self.layer1):
            x = block(x)
            activations[f"layer1.{i}"] = x
        if keep is not None:
            keep.update(activations)
        return F.adaptive_max_pool2d(x, self.grid).mean(1).flatten(1)


def initialise(net, generator):
    """Glorot uniform convolutions; normalisations a little off the identity."""
    state = net.state_dict()
    for name, w in state.items():
        if w.dim() == 4:
            area = w.shape[2] * w.shape[3]
            bound = (6 / (area * (w.shape[0] + w.shape[1]))) ** 0.5
            w.copy_(bound * (2 * torch.rand(w.shape, generator=generator) - 1))
        elif name.endswith(".weight"):
            w.copy_(1 + 0.2 * torch.randn(w.shape, generator=generator))
        elif name.endswith(".bias"):
            w.copy_(0.1 * torch.randn(w.shape, generator=generator))


def train(net, x, target, out):
    """Takes the steps, fills out unless it is None, and returns the losses."""
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses, later = [], {}
    for step in range(STEPS):
        optimiser.zero_grad()
        activations = {}
        y = net(x, activations)
        loss = F.mse_loss(y, target)
        loss.backward()
        losses.append(loss.item())
        if out is not None and step == 0:
            out["output"] = single(y)
            for place, a in activations.items():
                out["activation." + place] = single(a.permute(0, 2, 3, 1).contiguous())
        for name, p in net.named_parameters() if out is not None else []:
            g = p.grad.flatten()
            if step == 0:
                out["gradient." + name] = single(p.grad)
                continue
            at = [i * (len(g) - 1) // (ENTRIES - 1) for i in range(ENTRIES)]
            row = [g.norm().item(), g.mean().item()] + g[at].tolist()
            later.setdefault("later." + name, []).append(row)
        optimiser.step()
    if out is not None:
        out.update({name: np.array(rows) for name, rows in later.items()})
    return np.array(losses)


def single(t):
    return t.detach().numpy().astype(np.float32)


def main(path):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(1)
    image = torch.randint(0, 256, (2, 96, 96, 3), generator=generator, dtype=torch.uint8)
    # Neighbouring pixels of a map are alike: blocks of 8x8, and some noise.
    image = (image // 4 + image[:, ::8, ::8].repeat_interleave(8, 1).repeat_interleave(8, 2) // 4 * 3)
    target = 2 * torch.rand((2, 144), generator=generator)
    net = Network()
    initialise(net, generator)
    arrays = {"image": image.numpy(), "target": target.numpy()}
    for name, w in net.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            arrays["init." + name] = w.numpy().copy()
    x = ((image.float() - 128) / 64).permute(0, 3, 1, 2).contiguous()
    wide = Network().double()
    wide.load_state_dict(net.state_dict())
    arrays["losses32"] = train(net, x, target, None)
    arrays["losses64"] = train(wide, x.double(), target.double(), arrays)
    for name, w in wide.named_buffers():
        if not name.endswith("num_batches_tracked"):
            arrays["final." + name] = w.numpy().copy()
    wide.eval()
    with torch.no_grad():
        arrays["evaluation"] = wide(x.double()).numpy()
    write(path, arrays, {
        "generator": "bench/peers/resnet_golden.py",
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rate": str(RATE),
    })


def write(path, arrays, metadata):
    """The safetensors format: length of the header, header, data."""
    kinds = {"uint8": "U8", "float32": "F32", "float64": "F64"}
    header, data, at = {"__metadata__": metadata}, [], 0
    # The wide types first keep every array aligned.
    for name, a in sorted(arrays.items(), key=lambda kv: (-kv[1].itemsize, kv[0])):
        raw = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": kinds[a.dtype.name], "shape": list(a.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(data))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
