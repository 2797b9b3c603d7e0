"""A training step of a language model with seven billion parameters: for fake tensors.

Needs PyTorch. ``FAKES`` is to ``capture_fake`` what ``training_models.MODELS`` is to a capture.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from training_models import Training, training


class LlamaLayer(nn.Module):
    """Attention with rotated queries and keys, then a gated perceptron (Touvron et al., 2023)."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Add both branches."""
        y = self.norm1(x)
        q, k, v = (
            part(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        q, k = (t * cos + torch.cat([-t[..., 1::2], t[..., ::2]], -1) * sin for t in (q, k))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """A decoder-only language model of the size that is asked for."""

    def __init__(self, vocabulary: int, width: int, heads: int, hidden: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, hidden) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
        """Return the logits of the next token."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, *angles)
        return self.head(self.norm(x))


def llama_7b() -> Training:
    """Make a 7B Llama in bfloat16: batch 8, 2048 tokens, AdamW. For fake tensors only."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        model = Llama(vocabulary=32000, width=4096, heads=32, hidden=11008, depth=32)
        angles = torch.randn(2048, 128), torch.randn(2048, 128)
    finally:
        torch.set_default_dtype(before)
    tokens, targets = torch.randint(32000, (8, 2048)), torch.randint(32000, (8 * 2048,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss_of(_: int) -> Tensor:
        return functional.cross_entropy(model(tokens, angles).flatten(0, 1), targets)

    return training(model, optimizer, loss_of, steps=1)


FAKES = {make.__name__: make for make in (llama_7b,)}
