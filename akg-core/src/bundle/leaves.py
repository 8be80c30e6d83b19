# The tensors of an argument; everything else must be as it was when the kernels were made.
def akg_leaves(name, given, expected, found):
    kind, detail = expected
    shown = "a tensor" if isinstance(given, torch.Tensor) else repr(given)
    if kind == "tensor":
        found[detail] = given
    elif kind == "literal":
        same = type(given) is type(detail) and (given == detail or given != given and detail != detail)
        if not same:
            raise ValueError(f"`{name}` is {shown}, but these kernels were made for {detail!r}; export them anew for it")
    elif kind == "fields":
        for field, item in detail:
            akg_leaves(f"{name}.{field}", getattr(given, field), item, found)
    elif kind == "mapping":
        if not isinstance(given, dict) or set(given) != {key for key, _ in detail}:
            raise ValueError(f"`{name}` must be a dictionary with the keys {[key for key, _ in detail]}, not {shown}")
        for key, item in detail:
            akg_leaves(f"{name}[{key!r}]", given[key], item, found)
    else:
        if not isinstance(given, (list, tuple)) or len(given) != len(detail):
            raise ValueError(f"`{name}` must have {len(detail)} items, not be {shown}")
        for at, item in enumerate(detail):
            akg_leaves(f"{name}[{at}]", given[at], item, found)
