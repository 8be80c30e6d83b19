"""Digests of tensors, computed where they lie. `commitment.rs` computes the same, and says why."""

import torch

# Odd constants of each tree, as signed numbers of 64 bits.
TREES = ((-7046029254386353131, -4658895280553007687), (-2960836687051489901, -6884282663029611473))

LOW = 2**32 - 1


def digests(tensors):
    """The two roots of each dense tensor's bytes. Tensors of one type are hashed together: launches for each of them would take
    longer than most calls of a module."""
    alike = {}
    for number, tensor in enumerate(tensors):
        alike.setdefault((tensor.dtype, tensor.shape, tensor.device), []).append(number)
    roots = {}
    for numbers in alike.values():
        rows = torch.stack([tensors[number].reshape(-1) for number in numbers])
        roots.update(zip(numbers, roots_of_rows(rows).tolist()))
    return [roots[number] for number in range(len(tensors))]


def roots_of_rows(rows):
    """The two roots of each row's bytes, as a tensor on its device."""
    count = len(rows)
    octets = rows.view(torch.uint8)
    size = octets.shape[1]
    filled = torch.zeros((count, max(-(-size // 8), 1) * 8), dtype=torch.uint8, device=rows.device)
    filled[:, :size] = octets
    words = filled.view(torch.int64)
    return torch.stack([root(words, *constants) ^ size for constants in TREES], dim=1)


def root(words, left, right):
    """Folds the second half of each row's words into the first until one is left."""
    while True:
        half = -(-words.shape[1] // 2)
        mixed = words[:, :half].clone()
        others = words[:, half:]
        mixed[:, : others.shape[1]] ^= others * left
        mixed *= right
        mixed ^= (mixed >> 32) & LOW
        words = mixed.mul_(left)
        if half <= 1:
            return words[:, 0]
