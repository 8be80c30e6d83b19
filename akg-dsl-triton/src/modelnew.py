# @NAME@ in Triton, by akg @AKG@, in accuracy class @ACCURACY@.
# @EVIDENCE@

@IMPORTS@

@KERNELS@


# The tensor as kernels read it: dense, aligned, of its type; masks and integers may come as floating-point numbers.
def akg_input(name, tensor, dtype, shape):
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda or tensor.shape != shape:
        raise ValueError(f"`{name}` must be a tensor of shape {shape} on a GPU")
    if tensor.dtype != dtype:
        if dtype.is_floating_point:
            raise ValueError(f"`{name}` must have elements of {dtype}, not {tensor.dtype}")
        tensor = tensor.to(dtype)
    if not tensor.is_contiguous() or tensor.data_ptr() % @ALIGN@:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    return tensor


# Starts so many programs of a kernel; `LAUNCH` names its parameters that are tensor descriptors.
def akg_launch(kernel, programs, *arguments, **more):
    options = {"enable_fp_fusion": False, **LAUNCH.get(kernel.__name__, {}), **more}
    described = options.pop("descriptors", None)
    if described:
        arguments = [
            akg_descriptor(argument, **described[name]) if name in described else argument
            for name, argument in zip(kernel.arg_names, arguments)
        ]
    kernel[(programs,)](*arguments, **options)
@HELPERS@

@MODULE@
