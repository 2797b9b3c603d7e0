"""Training steps of small models of many kinds: what capture is tried on.

Needs PyTorch; no data set: weights and batches come from a seed. ``MODELS`` has a function for each
that makes model, optimizer and step. ``capture_models.py`` makes the bundled traces of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, max_pool2d


class Training(NamedTuple):
    """A model, its optimizer and what one captured step runs."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], Tensor]


def training(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[int], Tensor],
    steps: int,
    clip: float = 0.0,
) -> Training:
    """Make a step of one or more forward, backward and optimizer passes."""

    def step() -> Tensor:
        for number in range(steps):
            loss = loss_of(number)
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return Training(model, optimizer, step)


def mlp(batch: int = 1024) -> Training:
    """Make ten layers on a large batch: small enough to read the log."""
    hidden = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.GELU())]
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), *hidden, nn.Linear(64, 10))
    x, y = torch.randn(batch, 32), torch.randint(10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training(model, optimizer, lambda _: cross_entropy(model(x), y), steps=1)


class Residual(nn.Module):
    """Two convolutions beside a shortcut (He et al., 2016)."""

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        stride = 1 if c_in == c_out else 2
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(c_out)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(c_in, c_out, 1, stride, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Add the two branches."""
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet32(batch: int = 32) -> Training:
    """Make the 32-layer residual network for 32x32 images, SGD with momentum."""
    widths = [16] * 6 + [32] * 5 + [64] * 5
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        *(Residual(a, b) for a, b in zip(widths, widths[1:], strict=False)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return training(model, optimizer, lambda _: cross_entropy(model(x), y), steps=1)


def convolutions(c_in: int, c_out: int) -> nn.Sequential:
    """Make two 3x3 convolutions, each normalized and rectified."""
    return nn.Sequential(
        *(
            layer
            for a in (c_in, c_out)
            for layer in (nn.Conv2d(a, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU())
        )
    )


class UNet(nn.Module):
    """Down, up, and long shortcuts between the two (Ronneberger et al., 2015)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        pairs = list(zip(widths, widths[1:], strict=False))
        self.head = convolutions(3, width)
        self.down = nn.ModuleList(convolutions(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.merge = nn.ModuleList(convolutions(2 * a, a) for a, _ in pairs)
        self.tail = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Go down, then up."""
        levels = [self.head(x)]
        for block in self.down:
            levels.append(block(max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, merge in zip(reversed(self.up), reversed(self.merge), strict=True):
            x = merge(torch.cat([levels.pop(), up(x)], dim=1))
        return self.tail(x)


def unet(batch: int = 8) -> Training:
    """Make a U-Net of four levels on 64x64 images, SGD."""
    model = UNet(width=8, depth=3)
    x, y = torch.randn(batch, 3, 64, 64), torch.rand(batch, 1, 64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training(
        model,
        optimizer,
        lambda _: binary_cross_entropy_with_logits(model(x), y),
        steps=1,
    )


class Attention(nn.Module):
    """Causal self-attention that keeps its T x T matrices, as in the papers."""

    def __init__(self, width: int, heads: int, length: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = nn.Dropout(dropout)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(length, length).triu(1).bool())

    def forward(self, x: Tensor) -> Tensor:
        """Attend to the past."""
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        scores = q @ k.transpose(2, 3) / shape[-1] ** 0.5
        weights = self.dropout(scores.masked_fill(self.mask, float("-inf")).softmax(dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """A transformer block, normalized first."""

    def __init__(self, width: int, heads: int, length: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.attention = Attention(width, heads, length, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add attention, then the perceptron."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """A small decoder-only language model, with dropout where GPT-2 has it."""

    def __init__(self, vocabulary: int, width: int, heads: int, length: int, depth: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, length, 0.1) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token."""
        x = self.dropout(self.token(tokens) + self.position)
        return self.head(self.norm(self.blocks(x)))


def gpt(batch: int = 16) -> Training:
    """Make a GPT of six blocks, width 128, 4 heads, 128 tokens, dropout, AdamW."""
    model = GPT(vocabulary=256, width=128, heads=4, length=128, depth=6)
    tokens, targets = torch.randint(256, (batch, 128)), torch.randint(256, (batch * 128,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return training(
        model,
        optimizer,
        lambda _: cross_entropy(model(tokens).flatten(0, 1), targets),
        steps=1,
    )


Tree = int | tuple["Tree", "Tree"]


def random_tree(leaves: list[int], draw: random.Random) -> Tree:
    """Split a sentence at random places until words remain."""
    if len(leaves) == 1:
        return leaves[0]
    cut = draw.randint(1, len(leaves) - 1)
    return random_tree(leaves[:cut], draw), random_tree(leaves[cut:], draw)


class TreeLSTM(nn.Module):
    """A binary TreeLSTM (Tai et al., 2015): the data's tree decides what is called."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(vocabulary, width)
        self.leaf = nn.Linear(width, 3 * width)
        self.node = nn.Linear(2 * width, 5 * width)
        self.classify = nn.Linear(width, 5)

    def encode(self, tree: Tree, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden state and the memory of a subtree, for a batch of sentences."""
        if isinstance(tree, int):
            gates = self.leaf(self.embed(words[tree])).split(self.width, dim=1)
            memory = gates[0].sigmoid() * gates[1].tanh()
        else:
            (h_left, c_left), (h_right, c_right) = (self.encode(part, words) for part in tree)
            gates = self.node(torch.cat([h_left, h_right], dim=1)).split(self.width, dim=1)
            memory = gates[0].sigmoid() * gates[1].tanh()
            memory = memory + gates[3].sigmoid() * c_left + gates[4].sigmoid() * c_right
        return gates[2].sigmoid() * memory.tanh(), memory

    def forward(self, tree: Tree, words: Tensor) -> Tensor:
        """Return the logits of the root's class."""
        return self.classify(self.encode(tree, words)[0])


def treelstm(batch: int = 512) -> Training:
    """Make a TreeLSTM of width 64 over a random tree of 24 words, SGD."""
    model = TreeLSTM(vocabulary=50, width=64)
    tree = random_tree(list(range(24)), random.Random(0))
    words, y = torch.randint(50, (24, batch)), torch.randint(5, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training(model, optimizer, lambda _: cross_entropy(model(tree, words), y), steps=1)


class Dense(nn.Module):
    """A layer whose input is everything before it (Huang et al., 2017)."""

    def __init__(self, c_in: int, growth: int) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(c_in), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(c_in, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Append new channels."""
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], dim=1)


def densenet(batch: int = 16) -> Training:
    """Make a DenseNet of three blocks of six layers, growth 12, 32x32 images, SGD."""
    channels = 24
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
    for block in range(3):
        layers += [Dense(channels + 12 * k, 12) for k in range(6)]
        channels += 72
        if block < 2:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1)]
            layers.append(nn.AvgPool2d(2))
            channels //= 2
    head = [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*layers, *head, nn.Linear(channels, 10))
    x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return training(model, optimizer, lambda _: cross_entropy(model(x), y), steps=1)


class LSTM(nn.Module):
    """An LSTM that reads sentences word by word, and a class for each sentence."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cell = nn.LSTMCell(width, width)
        self.classify = nn.Linear(width, 5)

    def forward(self, words: Tensor) -> Tensor:
        """Return the logits of each sentence's class."""
        state = None
        for word in words:
            state = self.cell(self.embed(word), state)
        return self.classify(state[0])


def lstm(batch: int = 128) -> Training:
    """Make an LSTM of width 64 over 48 words, SGD, gradients clipped."""
    model = LSTM(vocabulary=100, width=64)
    words, y = torch.randint(100, (48, batch)), torch.randint(5, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training(model, optimizer, lambda _: cross_entropy(model(words), y), steps=1, clip=1.0)


def vit_2steps(batch: int = 32) -> Training:
    """Make two AdamW steps of a vision transformer: four layers, width 96, 65 places."""
    layer = nn.TransformerEncoderLayer(96, 4, 384, dropout=0.0, batch_first=True, norm_first=True)
    model = nn.ModuleDict(
        {
            "patch": nn.Conv2d(3, 96, 4, 4),
            "encoder": nn.TransformerEncoder(layer, 4, enable_nested_tensor=False),
            "head": nn.Linear(96, 10),
        }
    )
    x, y = torch.randn(2, batch, 3, 32, 32), torch.randint(10, (2, batch))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def loss_of(number: int) -> Tensor:
        patches = model["patch"](x[number]).flatten(2).transpose(1, 2)
        return cross_entropy(model["head"](model["encoder"](patches).mean(dim=1)), y[number])

    return training(model, optimizer, loss_of, steps=2)


MODELS = {
    make.__name__: make for make in (resnet32, densenet, unet, lstm, treelstm, gpt, vit_2steps, mlp)
}
