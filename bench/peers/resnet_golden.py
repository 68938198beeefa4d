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
    head.init.NAME          weight and bias of a 1x1 convolution as head; the rest starts as above
    head.output             of step 1, [2, 144]; some outputs are clamped at zero
    head.losses             of the ten steps
    head.steps.NAME         steps 1 to 10: norm, mean and 16 entries of the gradient

Everything but losses32 is computed in float64 from parameters that float32
holds exactly; what is large is stored as float32. The file's metadata names the
versions.
"""

import json
import os
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

    def __init__(self, head=False, grid=12, channels=64):
        super().__init__()
        self.grid = grid
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.layer1 = nn.Sequential(BasicBlock(channels), BasicBlock(channels))
        self.head = nn.Conv2d(channels, 1, 1) if head else None

    def forward(self, x, keep=None):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        activations = {"stem": x}
        for i, block in enumerate(self.layer1):
            x = block(x)
            activations[f"layer1.{i}"] = x
        if keep is not None:
            keep.update(activations)
        x = F.adaptive_max_pool2d(x, self.grid)
        x = x.mean(1) if self.head is None else F.relu(self.head(x))
        return x.flatten(1)


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


def train(net, x, target, see=None):
    """Takes the steps and returns the losses. see(step, output, activations), if
    given, is called before each update."""
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(STEPS):
        optimiser.zero_grad()
        activations = {}
        y = net(x, activations)
        loss = F.mse_loss(y, target)
        loss.backward()
        losses.append(loss.item())
        if see is not None:
            see(step, y, activations)
        optimiser.step()
    return np.array(losses)


def summary(gradient):
    """Norm, mean and some entries of a gradient."""
    g = gradient.flatten()
    at = [i * (len(g) - 1) // (ENTRIES - 1) for i in range(ENTRIES)]
    return [g.norm().item(), g.mean().item()] + g[at].tolist()


def plain(net, x, target, arrays):
    """The steps with the mean as head."""
    later = {}

    def see(step, y, activations):
        if step == 0:
            arrays["output"] = single(y)
            for place, a in activations.items():
                arrays["activation." + place] = single(a.permute(0, 2, 3, 1).contiguous())
        for name, p in net.named_parameters():
            if step == 0:
                arrays["gradient." + name] = single(p.grad)
            else:
                later.setdefault("later." + name, []).append(summary(p.grad))

    arrays["losses64"] = train(net, x, target, see)
    arrays.update({name: np.array(rows) for name, rows in later.items()})


def headed(state, x, target, arrays):
    """The steps with a convolution as head, whose bias clamps a quarter of the outputs."""
    net = Network(head=True)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        net.load_state_dict({
            **state,
            "head.weight": (1 + 0.5 * torch.randn(net.head.weight.shape, generator=generator)) / net.head.weight.numel(),
            "head.bias": torch.zeros(1),
        })
        probe = Network(head=True)
        probe.load_state_dict(net.state_dict())
        net.head.bias.copy_(-probe(x.float()).quantile(0.25))
    for name in ("head.weight", "head.bias"):
        arrays["head.init." + name] = net.state_dict()[name].numpy().copy()
    net = net.double()
    steps = {}

    def see(step, y, _):
        if step == 0:
            arrays["head.output"] = single(y)
        for name, p in net.named_parameters():
            steps.setdefault("head.steps." + name, []).append(summary(p.grad))

    arrays["head.losses"] = train(net, x, target, see)
    arrays.update({name: np.array(rows) for name, rows in steps.items()})


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
    headed(net.state_dict(), x.double(), target.double(), arrays)
    arrays["losses32"] = train(net, x, target)
    plain(wide, x.double(), target.double(), arrays)
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
    # The file appears whole or not at all.
    part = path + ".part"
    with open(part, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(data))
    os.replace(part, path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
