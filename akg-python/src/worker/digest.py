"""Digests of tensors, computed where they lie. `commitment.rs` computes the same, and says why."""

import torch

# Odd constants of each tree, as signed numbers of 64 bits.
TREES = ((-7046029254386353131, -4658895280553007687), (-2960836687051489901, -6884282663029611473))

LOW = 2**32 - 1


def digest(tensor):
    """The two roots of a dense tensor's bytes, as a tensor on its device."""
    octets = tensor.reshape(-1).view(torch.uint8)
    size = octets.numel()
    filled = torch.zeros(max(-(-size // 8), 1) * 8, dtype=torch.uint8, device=tensor.device)
    filled[:size] = octets
    words = filled.view(torch.int64)
    return torch.stack([root(words, *constants) ^ size for constants in TREES])


def root(words, left, right):
    """Folds the second half of the words into the first until one is left."""
    while True:
        half = -(-words.numel() // 2)
        mixed = words[:half].clone()
        others = words[half:]
        mixed[: others.numel()] ^= others * left
        mixed *= right
        mixed ^= (mixed >> 32) & LOW
        words = mixed.mul_(left)
        if half <= 1:
            return words[0]
