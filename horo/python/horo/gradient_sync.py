"""Gradients that are exchanged while backward runs."""
import contextlib
import ctypes
import weakref

from . import _library, _tensors
from ._library import LIBRARY, created, encoded
from .job import AVERAGE, StepReport, current_stream

# Element types between nodes, and compressions, with the values of horo_data_type and horo_compression.
_WIRES = {None: 0, "float32": 0, "float16": 2, "bfloat16": 3}
_COMPRESSIONS = {None: 0, "powersgd": 1, "topk": 2, "int8": 3}


def _chosen(table, value, option):
    if value not in table:
        choices = ", ".join(repr(key) for key in table)
        raise _library.InvalidArgument(f"{option}={value!r}; expected one of {choices}")
    return table[value]


class GradientSync:
    """Gradients that are registered once, and then exchanged in buckets in every step, without control messages.

      sync = GradientSync(job, {"weight": weight_gradient, "bias": bias_gradient})
      ...                   # in backward, as soon as a gradient is final:
      sync.ready(1)
      sync.ready(0)
      sync.wait()           # the gradients are averages over the ranks

    The memory of the gradients must stay in place. All arguments are the same on all ranks. Collective.
    """

    def __init__(self, context, gradients, *, name=None, op=AVERAGE, bucket_bytes=0, first_bucket_bytes=0, wire=None,
                 compression=None, compression_rank=4, compression_fraction=0.01, backward_passes_per_step=1,
                 find_unused=False, weighted=False, clip_norm=None, check_finite=False, reorder=False):
        """`gradients`: tensors by name, in the order in which the model computes them. `bucket_bytes` 0: HORO_BUCKET_BYTES.
        `wire`: "float16" or "bfloat16", the type between nodes. `compression`: "powersgd", "topk" or "int8". Other options: see
        docs/guides/gradient_sync.md."""
        self._sync = None
        views = {key: _tensors.view_of(tensor) for key, tensor in gradients.items()}
        self._is_on_gpu = any(view.is_on_gpu for view in views.values())
        array = (_library.Tensor * max(1, len(views)))(
            *[view.as_c(key, context._device(view)) for key, view in views.items()])
        options = _library.GradientSyncOptions(
            ctypes.sizeof(_library.GradientSyncOptions), encoded(name), op, bucket_bytes, first_bucket_bytes,
            _chosen(_WIRES, wire, "wire"), _chosen(_COMPRESSIONS, compression, "compression"), compression_rank,
            compression_fraction, backward_passes_per_step, find_unused, weighted, clip_norm or 0.0, check_finite, reorder)
        self._kept = (gradients, views)
        self._sync = created(LIBRARY.horo_gradient_sync_create, context._pointer, array, len(views), ctypes.byref(options))
        context._dependents.append(weakref.ref(self))

    def ready(self, index):
        """Marks gradient `index`, in the order of registration, as final. Does not block. Thread-safe."""
        if self._is_on_gpu:
            LIBRARY.horo_gradient_sync_ready_on(self._sync, index, current_stream())
        else:
            LIBRARY.horo_gradient_sync_ready(self._sync, index)

    def wait(self):
        """Ends a pass: blocks until every gradient is reduced. On a GPU, later work of the current stream follows."""
        if self._is_on_gpu:
            LIBRARY.horo_gradient_sync_wait_on(self._sync, current_stream())
        else:
            LIBRARY.horo_gradient_sync_wait(self._sync)

    def report(self):
        """The result of the latest step, the same on all ranks; None if the pass only accumulated."""
        report = _library.StepReport(ctypes.sizeof(_library.StepReport))
        LIBRARY.horo_gradient_sync_report(self._sync, ctypes.byref(report))
        if not report.was_exchanged:
            return None
        return StepReport(report.total_weight, report.norm, bool(report.was_clipped), bool(report.is_finite),
                          report.non_finite_rank, report.non_finite_gradient, report.non_finite_index)

    @contextlib.contextmanager
    def no_sync(self):
        """Passes in this scope exchange nothing; the pass after it ends the step."""
        LIBRARY.horo_gradient_sync_begin_no_sync(self._sync)
        try:
            yield
        finally:
            LIBRARY.horo_gradient_sync_end_no_sync(self._sync)

    def set_weight(self, weight):
        """With weighted=True: the weight of this rank in this step and all later ones."""
        LIBRARY.horo_gradient_sync_set_weight(self._sync, weight)

    def unused(self):
        """With find_unused=True: the gradients that this rank did not mark in its latest step."""
        indices, count = ctypes.POINTER(ctypes.c_size_t)(), ctypes.c_size_t()
        LIBRARY.horo_gradient_sync_unused(self._sync, ctypes.byref(indices), ctypes.byref(count))
        return [indices[i] for i in range(count.value)]

    def bucket_count(self):
        """The number of buckets."""
        return LIBRARY.horo_gradient_sync_bucket_count(self._sync)

    def close(self):
        """Ends the exchange. Context.shutdown() calls it."""
        if self._sync is not None:
            sync, self._sync = self._sync, None
            LIBRARY.horo_gradient_sync_destroy(sync)
            self._kept = None

    def __del__(self):
        self.close()


class Arena:
    """Memory that all ranks of a node have mapped, in which gradients are reduced in place. Collective. `address` is its first
    byte, 4 KiB aligned and zeroed. The owner keeps this object until no tensor uses the memory."""

    def __init__(self, context, bytes_):
        self._arena = created(LIBRARY.horo_arena_create, context._pointer, bytes_)
        self.address = LIBRARY.horo_arena_data(self._arena)
        self.bytes = bytes_
        context._dependents.append(weakref.ref(self))

    def buffer(self):
        """The memory as a writable buffer."""
        buffer = (ctypes.c_char * self.bytes).from_address(self.address)
        buffer.arena = self  # keeps it
        return buffer

    def close(self):
        """Frees the memory. Context.shutdown() calls it."""
        if self._arena is not None:
            arena, self._arena = self._arena, None
            LIBRARY.horo_arena_destroy(arena)

    def __del__(self):
        if getattr(self, "_arena", None) is not None:
            self.close()
