"""Training with PyTorch on the ranks of a job equals training on one rank with all samples. Exits with 77 without PyTorch."""
import sys
from unittest import mock

try:
    import torch
except ImportError:
    print("SKIPPED: PyTorch is missing; pip install torch")
    sys.exit(77)
if not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
    print(f"SKIPPED: this needs PyTorch 2.1 or later, and PyTorch is {torch.__version__}; pip install --upgrade torch")
    sys.exit(77)

import horo.torch as horo

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
horo.init()
RANK, SIZE = horo.rank(), horo.size()
SAMPLES = 3  # per rank and pass


class Net(torch.nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(7, 13)
        self.second = torch.nn.Linear(13, 3)
        self.frozen = torch.nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.only_first_rank = torch.nn.Parameter(torch.ones(3))
        self.unused = torch.nn.Parameter(torch.ones(5))

    def forward(self, x, has_extra):
        y = self.frozen(self.second(torch.tanh(self.first(x))))
        return y * self.only_first_rank if has_extra else y


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(SAMPLES, 7, generator=generator), torch.randn(SAMPLES, 3, generator=generator)


def loss_of(model, step, rank):
    x, y = batch(step, rank)
    return torch.nn.functional.mse_loss(model(x, rank == 0), y)


def make_optimizer(model, kind):
    if kind == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def reference(kind, passes, clip):
    """All ranks' samples on one rank."""
    model = Net(seed=1)
    optimizer = make_optimizer(model, kind)
    for step in range(5):
        optimizer.zero_grad()
        for pass_ in range(passes):
            for rank in range(SIZE):
                (loss_of(model, passes * step + pass_, rank) / SIZE).backward()
        for parameter in model.parameters():  # gradients of unused parameters are zero on all ranks
            if parameter.grad is None and parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


def train(kind="sgd", passes=1, clip=None, set_to_none=True, by_scope=False, own_clip=False):
    model = Net(seed=1 + RANK)
    options = {"clip_norm": clip} if own_clip else {}
    optimizer = horo.DistributedOptimizer(make_optimizer(model, kind), model.named_parameters(),
                                          backward_passes_per_step=1 if by_scope else passes, **options)
    horo.broadcast_parameters(model.state_dict())
    for step in range(5):
        optimizer.zero_grad(set_to_none=set_to_none)
        for pass_ in range(passes):
            loss = loss_of(model, passes * step + pass_, RANK)
            if by_scope and pass_ < passes - 1:
                with optimizer.no_sync():
                    loss.backward()
            else:
                loss.backward()
        if clip and not own_clip:
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    assert isinstance(optimizer, torch.optim.Optimizer)
    return model, optimizer


def check_equal(model, expected):
    for (name, parameter), (_, other) in zip(model.named_parameters(), expected.named_parameters()):
        torch.testing.assert_close(parameter, other, rtol=1e-5, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    horo.check_equal({name: parameter for name, parameter in model.named_parameters()})


for case in ({}, {"set_to_none": False}, {"kind": "adam"}, {"passes": 3}, {"passes": 2, "by_scope": True}, {"clip": 0.2},
             {"clip": 0.2, "own_clip": True}):
    trained, _ = train(**case)
    check_equal(trained, reference(case.get("kind", "sgd"), case.get("passes", 1), case.get("clip")))

# Every rank gets the state of rank 0, and the same optimizer can continue.
model, optimizer = train("adam")
if RANK != 0:
    optimizer.state.clear()
    optimizer.param_groups[0]["lr"] = 1.0
horo.broadcast_optimizer_state(optimizer)
assert optimizer.param_groups[0]["lr"] == 0.01
states = horo.allgather_object({str(key): value for key, value in optimizer.state_dict()["state"].items()})
for state in states:
    for key, values in states[0].items():
        assert torch.equal(values["exp_avg"], state[key]["exp_avg"])
loss_of(model, 99, RANK).backward()
optimizer.step()
horo.check_equal(dict(model.named_parameters()))

# Element types without a NumPy equal, tensors with a graph, and views.
values = torch.full((3,), float(RANK), dtype=torch.bfloat16)
assert horo.allreduce(values, horo.Sum).tolist() == [SIZE * (SIZE - 1) / 2] * 3
assert horo.allreduce(torch.ones(2, requires_grad=True) * RANK).tolist() == [(SIZE - 1) / 2] * 2
transposed = torch.arange(6.0).reshape(2, 3).t()
assert torch.equal(horo.allreduce(transposed), transposed)
assert horo.allgather(torch.tensor([RANK])).tolist() == list(range(SIZE))



class OldTensor:
    """In place of torch.Tensor before PyTorch 2.1."""


def make_distributed_optimizer_with_old_torch():
    own = make_optimizer(model, "sgd")
    with mock.patch.object(torch, "Tensor", OldTensor):
        horo.DistributedOptimizer(own, model.named_parameters())


for text, call in (("not contiguous", lambda: horo.allreduce_(transposed)),
                   ("needs PyTorch 2.1 or later", make_distributed_optimizer_with_old_torch),
                   ("is not a parameter of the optimizer",
                    lambda: horo.DistributedOptimizer(make_optimizer(model, "sgd"), Net(3).named_parameters())),
                   ("without a name",
                    lambda: horo.DistributedOptimizer(make_optimizer(model, "sgd"), model.first.named_parameters())),
                   ("exchanges them once", lambda: optimizer.step(lambda: None)),
                   ("computed 2 times", lambda: [loss_of(model, 1, RANK).backward() for _ in range(2)])):
    try:
        call()
    except horo.InvalidArgument as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
