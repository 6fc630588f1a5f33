"""Training with PyTorch.

  import horo.torch as horo
  horo.init()
  model = Net()
  optimizer = horo.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
  horo.broadcast_parameters(model.state_dict())
  horo.broadcast_optimizer_state(optimizer)
  for data, target in samples_of_this_rank:
      optimizer.zero_grad()
      loss(model(data), target).backward()     # gradients are exchanged meanwhile
      optimizer.step()                         # waits for the averages

The other functions are those of the module horo.
"""
import contextlib

import torch

import horo
from horo import Average, InvalidArgument, job
from horo.gradient_sync import Arena, GradientSync

_ALIGNMENT = 64  # bytes, of each gradient in the arena


def __getattr__(name):
    return getattr(horo, name)


def bootstrap(group=None):
    """The ranks of a process group of torch.distributed, for horo.init(bootstrap=...) in programs that torchrun starts. The group may
    be destroyed after horo.init()."""
    import torch.distributed as dist

    def allgather(own):
        parts = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, own, group)
        return parts

    return horo.Bootstrap(dist.get_rank(group), dist.get_world_size(group), allgather)


def _slots(context, parameters):
    """A tensor like each parameter, in memory that the ranks of a node share; on a GPU, in its memory. And what owns it."""
    if any(parameter.is_cuda for parameter in parameters):
        return [torch.zeros_like(parameter, memory_format=torch.contiguous_format) for parameter in parameters], None
    offsets, end = [], 0
    for parameter in parameters:
        offsets.append(end)
        end += -(-parameter.numel() * parameter.element_size() // _ALIGNMENT) * _ALIGNMENT
    arena = Arena(context, max(end, 1))
    memory = torch.frombuffer(arena.buffer(), dtype=torch.uint8)
    slots = []
    for parameter, offset in zip(parameters, offsets):
        part = memory[offset:offset + parameter.numel() * parameter.element_size()]
        slots.append(part.view(parameter.dtype).view(parameter.shape))
    return slots, arena


class _Exchange:
    """Moves the gradients of parameters into memory that stays in place, and exchanges them while backward runs."""

    def __init__(self, context, named_parameters, passes, **options):
        self.names = [name for name, _ in named_parameters]
        self.parameters = [parameter for _, parameter in named_parameters]
        self.passes = passes
        self._slots, self._arena = _slots(context, self.parameters)
        self.sync = GradientSync(context, dict(zip(self.names, self._slots)), **options)
        self._seen = [0] * len(self.parameters)
        self._is_paused = False
        self.hooks = [parameter.register_post_accumulate_grad_hook(self._hook(index))
                      for index, parameter in enumerate(self.parameters)]

    def _hook(self, index):
        def arrived(parameter):
            self._place(index, parameter)
            self._seen[index] += 1
            if self._is_paused or self._seen[index] < self.passes:
                return
            if self._seen[index] > self.passes:
                raise InvalidArgument(
                    f"the gradient of '{self.names[index]}' was computed {self._seen[index]} times before step(); call "
                    f"optimizer.step() after {self.passes} backward(), or set backward_passes_per_step")
            self.sync.ready(index)
        return arrived

    def _place(self, index, parameter):
        slot = self._slots[index]
        if parameter.grad.data_ptr() != slot.data_ptr():
            slot.copy_(parameter.grad)
            parameter.grad = slot

    def finish(self):
        """Blocks until all gradients are reduced. Those of parameters that backward did not reach count as zero on this rank."""
        for index, parameter in enumerate(self.parameters):
            if self._seen[index] >= self.passes:
                continue
            if parameter.grad is None:
                self._slots[index].zero_()
                parameter.grad = self._slots[index]
            else:
                self._place(index, parameter)
            self.sync.ready(index)
        self.sync.wait()
        self._seen = [0] * len(self.parameters)

    @contextlib.contextmanager
    def paused(self):
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False
            self._seen = [0] * len(self.parameters)


class _DistributedOptimizer:
    """What DistributedOptimizer() adds to the class of the wrapped optimizer."""

    def synchronize(self):
        """Blocks until the gradients are averages, for clipping or inspection before step(). step() then does not wait again."""
        if not self._is_synchronized:
            self._exchange.finish()
        self._is_synchronized = True

    def step(self, closure=None):
        if closure is not None:
            raise InvalidArgument("step(closure) computes gradients several times; a DistributedOptimizer exchanges them once")
        self.synchronize()
        self._is_synchronized = False
        return super(self.__class__, self).step()

    def no_sync(self):
        """A scope in which backward() only accumulates, for passes before the one that ends the step."""
        return self._exchange.paused()

    @property
    def report(self):
        """The report of the latest step; see GradientSync.report()."""
        return self._exchange.sync.report()


def DistributedOptimizer(optimizer, named_parameters=None, *, op=Average, backward_passes_per_step=1, context=None,  # noqa: N802
                         **options):
    """Returns `optimizer` so that step() first averages the gradients over all ranks. They are exchanged while backward runs.
    It is an instance of the class of `optimizer`, and shares its state and its parameter groups. Collective.

    named_parameters: of the model; by default the parameters of `optimizer` with numbers as names. Parameters that do not
    require a gradient are left out. backward_passes_per_step: passes whose gradients are added before the exchange; call step()
    once after them. op: Average, Sum or Adasum. context: a process set, in place of all ranks. options: of GradientSync, such
    as clip_norm, wire or compression.
    """
    if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        raise InvalidArgument(f"DistributedOptimizer needs PyTorch 2.1 or later, and this is {torch.__version__}; pip install --upgrade torch")
    if named_parameters is None:
        named_parameters = [(f"parameter.{group}.{index}", parameter) for group, content in enumerate(optimizer.param_groups)
                            for index, parameter in enumerate(content["params"])]
    named_parameters = [(name, parameter) for name, parameter in named_parameters if parameter.requires_grad]
    known = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in named_parameters:
        if id(parameter) not in known:
            raise InvalidArgument(f"'{name}' is not a parameter of the optimizer; pass the named_parameters() of its model")
    missing = known - {id(parameter) for _, parameter in named_parameters}
    if any(id(parameter) in missing and parameter.requires_grad for group in optimizer.param_groups for parameter in group["params"]):
        raise InvalidArgument("the optimizer has parameters without a name; pass the named_parameters() of all its models")
    kind = type(optimizer.__class__.__name__, (optimizer.__class__,),
                {name: value for name, value in vars(_DistributedOptimizer).items() if not name.startswith("__")})
    # step() of _DistributedOptimizer finds the optimizer's own step() as that of the base class of `kind`.
    result = kind.__new__(kind)
    result.__dict__.update(optimizer.__dict__)
    result._exchange = _Exchange(context or job(), named_parameters, backward_passes_per_step, op=op, **options)
    result._is_synchronized = False
    return result


def broadcast_parameters(parameters, root_rank=0, context=None):
    """Copies the tensors of rank `root_rank` to all ranks. `parameters`: a state_dict(), or named_parameters(). Collective."""
    items = parameters.items() if hasattr(parameters, "items") else parameters
    tensors = [tensor.detach() for _, tensor in items if isinstance(tensor, torch.Tensor) and tensor.numel() > 0]
    contiguous = [tensor.contiguous() for tensor in tensors]
    if contiguous:
        (context or job()).grouped_broadcast_(contiguous, root_rank, "horo.broadcast_parameters")
    for tensor, copy in zip(tensors, contiguous):
        if copy.data_ptr() != tensor.data_ptr():
            tensor.copy_(copy)


def broadcast_optimizer_state(optimizer, root_rank=0, context=None):
    """Gives the optimizers of all ranks the state and the options of that of rank `root_rank`. Collective."""
    context = context or job()
    state = optimizer.state_dict() if context.rank() == root_rank else None
    state = context.broadcast_object(state, root_rank, "horo.broadcast_optimizer_state")
    if context.rank() != root_rank:
        optimizer.load_state_dict(state)
