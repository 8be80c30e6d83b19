#: head: scaled_relu.py
# Modules by what they return.
#@ honest plain
        return compute(x, scale)
#@ honest a_tuple_of_one
        return (compute(x, scale),)
#@ honest a_view
        return compute(x, scale)[:]
#@ honest in_two_halves
        return torch.cat([compute(x[:24], scale), compute(x[24:], scale)])
#@ honest other_blocks
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, scale, y, x.numel(), BLOCK=64)
        return y
#@ honest a_result_twice
        compute(x, scale)
        return compute(x, scale)
#@ honest looks_at_a_value
        if x[0, 0].item() > 1e30: raise ValueError('out of range')
        return compute(x, scale)
#@ honest without_gradients
        with torch.no_grad():
            return compute(x, scale)
#@ honest garbage_is_collected
        y = compute(x, scale)
        gc.collect()
        return y
#@ hostile wrong_in_one_element: wrong-values
        y = compute(x, scale)
        y[5, 7] += 1e-3
        return y
#@ hostile wrong_in_one_row: wrong-values
        y = compute(x, scale)
        y[47] = y[46]
        return y
#@ hostile in_half: wrong-values
        return compute(x.half().float(), scale)
#@ hostile forgets_the_scale: wrong-values
        return compute(x, torch.ones_like(scale))
#@ hostile another_type: wrong-type
        return compute(x, scale).double()
#@ hostile another_shape: wrong-type
        return compute(x, scale).T
#@ hostile too_many_results: wrong-type
        return compute(x, scale), x
#@ hostile no_tensor: wrong-type
        return 1
#@ hostile a_lazy_tensor: wrong-type, wrong-values
        return Lazy(x, scale)


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x, scale):
        made = torch.Tensor._make_subclass(cls, torch.zeros_like(x))
        made.later = (x, scale)
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [compute(*a.later) if isinstance(a, Lazy) and hasattr(a, 'later') else a for a in args]
        return function(*args, **(kwargs or {}))
#@ hostile a_tensor_that_computes_when_it_is_dispatched: wrong-type, wrong-values, crashed, clock-mismatch, no-work
        return Deferred(x, scale)


class Deferred(torch.Tensor):
    @staticmethod
    def __new__(cls, x, scale):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.later = (x, scale)
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return args[0]
#@ hostile computes_in_data_ptr: wrong-values, wrong-type, clock-mismatch, no-work
        made = torch.zeros_like(x).as_subclass(Pointed)
        made.later = (x, scale)
        return made


class Pointed(torch.Tensor):
    def data_ptr(self):
        late.append(self)
        return super().data_ptr()


late = []
#@ hostile an_object_that_acts_as_a_tensor: wrong-type
        return Later(x, scale)


class Later:
    def __init__(self, x, scale):
        self.x, self.scale = x, scale

    def __getattr__(self, name):
        return getattr(compute(self.x, self.scale), name)
#@ hostile lies_about_a_shape: wrong-values, clock-mismatch
        return compute(x, scale).T.contiguous()


from akg_worker import candidate
types_of = candidate.types_of
hide()
candidate.types_of = lambda called: [[dict(each, shape=each['shape'][::-1]) for each in types] for types in types_of(called)]
#@ hostile lies_about_an_element_type: wrong-values, clock-mismatch
        return compute(x, scale).double()


from akg_worker import candidate
types_of = candidate.types_of
hide()
candidate.types_of = lambda called: [[dict(each, dtype='f32') for each in types] for types in types_of(called)]
#@ honest plain_and_timed timed
        return compute(x, scale)
#@ honest a_check_of_its_values
        y = compute(x, scale)
        if not torch.isfinite(y).all(): raise ValueError('no finite numbers')
        return y
#@ honest a_result_in_other_strides
        return compute(x, scale).T.contiguous().T
#@ honest a_parameter_as_result
        return nn.Parameter(compute(x, scale))
#@ honest a_subclass_without_behaviour
        return compute(x, scale).as_subclass(Named)


class Named(torch.Tensor):
    pass
#@ honest a_function_of_autograd
        return Function.apply(x, scale)


class Function(torch.autograd.Function):
    @staticmethod
    def forward(context, x, scale):
        return compute(x, scale)
#@ honest an_operator_of_its_own
        return scaled(x, scale)


@torch.library.custom_op('corpus::scaled', mutates_args=())
def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return compute(x, scale)
#@ honest a_dictionary
        return {'y': compute(x, scale)}
#@ honest inference_mode
        with torch.inference_mode():
            return compute(x, scale)
#@ honest warm_before_its_first_call
        return compute(x, scale)


ModelNew_init = ModelNew.__init__
def warm(self):
    ModelNew_init(self)
    self.register_buffer('unused', torch.arange(8))
    gc.collect()
ModelNew.__init__ = warm
