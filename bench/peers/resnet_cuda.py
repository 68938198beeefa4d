"""Training steps of the truncated ResNet-18 in PyTorch on a CUDA device: 7x7
convolution, two basic blocks, max pool to 12x12, mean over channels; mean
squared error, clipping of each array at 1, Adam; batch 64, 96x96 images that
are copied from page-locked host memory at every step, as internal/gpucheck
does. Prints images a second in float32 and in TF32.

    python3 resnet_cuda.py [batch [steps]]
"""
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


class Net(nn.Module):
    def __init__(self, grid=12, c=64):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 7, 2, 3, bias=False), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(c), Block(c))
        self.pool = nn.AdaptiveMaxPool2d(grid)

    def forward(self, x):
        return self.pool(self.blocks(self.stem(x))).mean(1).flatten(1)


def main():
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    if not torch.cuda.is_available():
        print("PyTorch finds no CUDA device")
        return
    print("torch", torch.__version__, "cuDNN", torch.backends.cudnn.version(), torch.cuda.get_device_name())
    torch.backends.cudnn.benchmark = True
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        for channels_last in (False, True):
            torch.manual_seed(1)
            fmt = torch.channels_last if channels_last else torch.contiguous_format
            net = Net().cuda().to(memory_format=fmt)
            optimiser = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
            x = torch.randn(batch, 3, 96, 96).contiguous(memory_format=fmt).pin_memory()
            target = torch.rand(batch, 144, device="cuda")

            def step():
                y = net(x.to("cuda", non_blocking=True))
                loss = nn.functional.mse_loss(y, target)
                optimiser.zero_grad()
                loss.backward()
                for p in net.parameters():
                    nn.utils.clip_grad_norm_([p], 1.0)
                optimiser.step()
                return loss

            for _ in range(10):
                step()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                step().item()  # a wait in each step, as where an oracle reads predictions
            torch.cuda.synchronize()
            took = (time.perf_counter() - start) / steps
            print(f"TF32 {tf32}, channels last {channels_last}: {1e3 * took:.3f} ms a step, {batch / took:.0f} img/s")


if __name__ == "__main__":
    main()
