"""Jobs: the ranks that mpirun started, and their operations."""
import collections
import contextlib
import ctypes
import itertools
import pickle
import sys

from . import _library, _tensors
from ._library import ALLGATHER, LIBRARY, BootstrapOptions, HoroError, InvalidArgument, created, encoded

# Reduction operations, with the values of horo_reduce_op.
AVERAGE, SUM, MIN, MAX, PRODUCT, ADASUM = range(6)


class Handle:
    """An operation in flight. The memory of its tensors stays alive until it has completed."""

    def __init__(self, handle, kept, result, stream=None):
        self._handle, self._kept, self._result, self._stream = handle, kept, result, stream

    def is_done(self):
        """True if the operation has completed, with or without an error."""
        return self._handle is None or LIBRARY.horo_is_done(self._handle) == 1

    def wait(self):
        """Blocks until the operation has completed. Returns its result: the tensor, or the list of tensors. Raises its error.
        Tensors on a GPU: later work of the stream follows the operation."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            if self._stream is not None:
                LIBRARY.horo_wait_on(handle, self._stream)
            LIBRARY.horo_wait(handle)
            self._kept = None
        return self._result

    def __del__(self):
        # The operation may still use the memory, so it must have completed before the memory is freed.
        if getattr(self, "_handle", None) is not None:
            with contextlib.suppress(_library.HoroError):
                self.wait()


class Context:
    """The job, or a process set, as this rank sees it. Every rank makes the same calls; operations in flight have different
    names. Made by horo.init() and process_set(). Functions may be called from several threads."""

    def __init__(self, pointer):
        self._pointer = pointer
        self._gpu = None
        self._groups = itertools.count()  # numbers of groups without a name, which all ranks submit in the same order
        self._dependents = []  # weak references to what must be closed before the context

    # ---- the place of this rank ----

    def rank(self):
        """The number of this rank, from 0; -1 if it is not a member of this process set."""
        return LIBRARY.horo_rank(self._pointer)

    def size(self):
        """The number of ranks."""
        return LIBRARY.horo_size(self._pointer)

    def local_rank(self):
        """The number of this rank on its node, from 0."""
        return LIBRARY.horo_local_rank(self._pointer)

    def local_size(self):
        """The number of ranks on this node."""
        return LIBRARY.horo_local_size(self._pointer)

    def node(self):
        """The number of this node, from 0."""
        return LIBRARY.horo_node(self._pointer)

    def node_count(self):
        """The number of nodes."""
        return LIBRARY.horo_node_count(self._pointer)

    def process_set(self, ranks):
        """A group of ranks with operations of its own. Collective over this context: members and others."""
        numbers = (ctypes.c_int * max(1, len(ranks)))(*ranks)
        return Context(created(LIBRARY.horo_process_set_create, self._pointer, numbers, len(ranks)))

    def includes_me(self):
        """True if this rank is a member."""
        return LIBRARY.horo_process_set_includes_me(self._pointer) == 1

    def shutdown(self):
        """Leaves the job or closes the process set. Collective: blocks until every rank has called it."""
        if self._pointer is None:
            return
        for reference in self._dependents:
            if (dependent := reference()) is not None:
                dependent.close()
        if self._gpu is not None:
            LIBRARY.horo_device_destroy(self._gpu)
        pointer, self._pointer = self._pointer, None
        LIBRARY.horo_shutdown(pointer)

    # ---- tensors of any library; see _tensors.view_of() ----

    def allreduce_async_(self, tensor, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """Reduces `tensor` over all ranks, in place. Returns a Handle."""
        return self._start(LIBRARY.horo_allreduce_async, [tensor], name, tensor, op=op, prescale=prescale, postscale=postscale)

    def allreduce_async(self, tensor, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """The same with a copy of `tensor`, which Handle.wait() returns."""
        return self.allreduce_async_(_tensors.copy_of(tensor), op, name, prescale, postscale)

    def allreduce_(self, tensor, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """Reduces `tensor` over all ranks, in place, and returns it. Blocks."""
        return self.allreduce_async_(tensor, op, name, prescale, postscale).wait()

    def allreduce(self, tensor, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """Returns the reduction over all ranks of a tensor, or of a number, whose result is a float. Blocks."""
        if isinstance(tensor, (int, float)):
            value = (ctypes.c_double * 1)(tensor)
            return self.allreduce_(value, op, name, prescale, postscale)[0]
        return self.allreduce_async(tensor, op, name, prescale, postscale).wait()

    def grouped_allreduce_async_(self, tensors, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """Reduces several tensors as one operation, in place. Returns a Handle."""
        return self._start_group(LIBRARY.horo_allreduce_group_async, list(tensors), name, op=op, prescale=prescale,
                                 postscale=postscale)

    def grouped_allreduce_(self, tensors, op=AVERAGE, name=None, prescale=1.0, postscale=1.0):
        """Reduces several tensors as one operation, in place, and returns their list. Blocks."""
        return self.grouped_allreduce_async_(tensors, op, name, prescale, postscale).wait()

    def broadcast_async_(self, tensor, root=0, name=None):
        """Copies `tensor` of rank `root` to all ranks, in place. Returns a Handle."""
        return self._start(LIBRARY.horo_broadcast_async, [tensor], name, tensor, root=root)

    def broadcast_(self, tensor, root=0, name=None):
        """Copies `tensor` of rank `root` to all ranks, in place, and returns it. Blocks."""
        return self.broadcast_async_(tensor, root, name).wait()

    def broadcast(self, tensor, root=0, name=None):
        """Returns the tensor of rank `root`. All ranks pass a tensor of the same shape and type. Blocks."""
        return self.broadcast_(_tensors.copy_of(tensor), root, name)

    def grouped_broadcast_(self, tensors, root=0, name=None):
        """Broadcasts several tensors as one operation, in place, and returns their list. Blocks."""
        return self._start_group(LIBRARY.horo_broadcast_group_async, list(tensors), name, root=root).wait()

    def allgather(self, tensor, name=None):
        """Returns the tensors of all ranks, concatenated along the first dimension, in which they may differ. Blocks."""
        rows = self._rows(tensor, "allgather")
        all_rows = self._gathered(rows[:1], None if name is None else f"{name}.rows")
        output = _tensors.empty_like(tensor, (sum(all_rows), *rows[1:]))
        return self._start(LIBRARY.horo_allgather_async, [tensor, output], name, output).wait()

    def reduce_scatter(self, tensor, op=AVERAGE, name=None):
        """Returns this rank's share of the reduction: shard_rows() rows of it, in the order of the ranks. Blocks."""
        shape = self._rows(tensor, "reduce_scatter")
        output = _tensors.empty_like(tensor, (LIBRARY.horo_shard_rows(self._pointer, shape[0]), *shape[1:]))
        return self._start(LIBRARY.horo_reduce_scatter_async, [tensor, output], name, output, op=op).wait()

    def alltoall(self, tensor, splits=None, name=None):
        """Sends `splits[r]` rows of `tensor` to each rank r, equal shares by default. Returns the rows that this rank received,
        in the order of the ranks, and the number of rows from each. Blocks."""
        shape = self._rows(tensor, "alltoall")
        size = self.size()
        if splits is None:
            if shape[0] % size != 0:
                raise InvalidArgument(f"alltoall: {shape[0]} rows cannot be divided equally between {size} ranks; pass splits")
            splits = [shape[0] // size] * size
        counts = (ctypes.c_size_t * size)(*splits)
        all_splits = self._gathered(splits, None if name is None else f"{name}.splits")
        received = [all_splits[sender * size + self.rank()] for sender in range(size)]
        output = _tensors.empty_like(tensor, (sum(received), *shape[1:]))
        views = [_tensors.view_of(tensor, writes=False), _tensors.view_of(output)]
        arguments = [ctypes.byref(views[0].as_c(name, self._device(views[0]))), counts,
                     ctypes.byref(views[1].as_c(None, self._device(views[1])))]
        self._submit(LIBRARY.horo_alltoall_async, arguments, (tensor, output, views), output, self._options(views)).wait()
        return output, received

    def send(self, tensor, to, name):
        """Sends `tensor` to rank `to`, which calls recv() with the same name, type and shape. Blocks."""
        view = _tensors.view_of(tensor, writes=False)
        Handle(created(LIBRARY.horo_send_async, self._pointer, ctypes.byref(view.as_c(name, self._device(view))), to), view, None).wait()

    def recv(self, tensor, source, name):
        """Receives `tensor` from rank `source`, in place, and returns it. Blocks."""
        view = _tensors.view_of(tensor)
        return Handle(created(LIBRARY.horo_recv_async, self._pointer, ctypes.byref(view.as_c(name, self._device(view))), source), view, tensor).wait()

    def barrier(self, name=None):
        """Blocks until every rank has called it."""
        LIBRARY.horo_barrier(self._pointer, encoded(name))

    def join(self):
        """Takes part in the reductions of the other ranks without data until all ranks have called join(). Returns the last one."""
        last = ctypes.c_int()
        LIBRARY.horo_join(self._pointer, ctypes.byref(last))
        return last.value

    def check_equal(self, tensors, name=None, every=1):
        """Raises MismatchError on every rank if a tensor differs between ranks, and names it. `tensors`: a dict by name.
        Compares in every `every`-th call with this name."""
        views = {key: _tensors.view_of(tensor, writes=False) for key, tensor in tensors.items()}
        array = (_library.Tensor * max(1, len(views)))(*[view.as_c(key) for key, view in views.items()])
        LIBRARY.horo_check_equal(self._pointer, array, len(views), encoded(name), every)

    # ---- Python objects ----

    def broadcast_object(self, value=None, root=0, name=None):
        """Returns the object of rank `root`, which pickle must accept. Unpickling runs code of the root. Blocks."""
        content = pickle.dumps(value) if self.rank() == root else b""
        result, size = ctypes.c_void_p(), ctypes.c_size_t()
        LIBRARY.horo_broadcast_object(self._pointer, content, len(content), root, encoded(name), ctypes.byref(result),
                                      ctypes.byref(size))
        return pickle.loads(_taken(result, size.value))

    def allgather_object(self, value, name=None):
        """Returns the list of the objects of all ranks. Blocks."""
        content = pickle.dumps(value)
        result, sizes = ctypes.c_void_p(), (ctypes.c_size_t * self.size())()
        LIBRARY.horo_allgather_object(self._pointer, content, len(content), encoded(name), ctypes.byref(result), sizes)
        all_bytes, objects, begin = _taken(result, sum(sizes)), [], 0
        for size in sizes:
            objects.append(pickle.loads(all_bytes[begin:begin + size]))
            begin += size
        return objects

    # ---- phases ----

    def phase(self, name):
        """A named part of the work of this rank, such as "forward", for reports and timelines. For a `with` statement."""
        return self._scope(LIBRARY.horo_phase_begin, name)

    def pause(self, name):
        """Long work of this rank, during which the other ranks wait without a timeout. For a `with` statement."""
        return self._scope(LIBRARY.horo_pause_begin, name)

    # ---- implementation ----

    @contextlib.contextmanager
    def _scope(self, begin, name):
        scope = created(begin, self._pointer, encoded(name))
        try:
            yield
        finally:
            LIBRARY.horo_scope_end(scope)

    def _gathered(self, numbers, name):
        """The numbers of all ranks, as many from each, in the order of the ranks."""
        mine = (ctypes.c_int64 * len(numbers))(*numbers)
        everyone = (ctypes.c_int64 * (len(numbers) * self.size()))()
        self._start(LIBRARY.horo_allgather_async, [mine, everyone], name, None).wait()
        return list(everyone)

    def _device(self, view):
        if not view.is_on_gpu:
            return None
        if self._gpu is None:
            self._gpu = created(LIBRARY.horo_open_gpu, self._pointer)
        return self._gpu

    def _rows(self, tensor, operation):
        shape = _tensors.view_of(tensor, writes=False).shape
        if not shape:
            raise InvalidArgument(f"{operation}: a tensor without dimensions has no rows; pass one of shape (1,)")
        return shape

    def _options(self, views, name=None, op=AVERAGE, root=0, prescale=1.0, postscale=1.0):
        stream = current_stream() if any(view.is_on_gpu for view in views) else None
        return _library.Options(ctypes.sizeof(_library.Options), encoded(name), op, root, prescale, postscale, stream)

    def _submit(self, function, arguments, kept, result, options):
        handle = created(function, self._pointer, *arguments, ctypes.byref(options))
        return Handle(handle, kept, result, options.stream)

    def _start(self, function, tensors, name, result, **options):
        # The last tensor is the one that the operation writes.
        views = [_tensors.view_of(tensor, writes=tensor is tensors[-1]) for tensor in tensors]
        arguments = [ctypes.byref(view.as_c(name, self._device(view))) for view in views]
        return self._submit(function, arguments, (tensors, views), result, self._options(views, **options))

    def _start_group(self, function, tensors, name, **options):
        if name is None:
            name = f"group.{next(self._groups)}"
        views = [_tensors.view_of(tensor) for tensor in tensors]
        array = (_library.Tensor * max(1, len(views)))(
            *[view.as_c(f"{name}.{index}", self._device(view)) for index, view in enumerate(views)])
        return self._submit(function, [array, len(views)], (tensors, views), tensors, self._options(views, name=name, **options))


def _taken(pointer, size):
    try:
        return ctypes.string_at(pointer, size)
    finally:
        LIBRARY.horo_free(pointer)


def current_stream():
    """The cudaStream_t on which tensors of a GPU are used: PyTorch's current stream, else the default stream."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_stream().cuda_stream if torch is not None else None


Bootstrap = collections.namedtuple("Bootstrap", "rank size allgather")
Bootstrap.__doc__ = """How the processes of a job find each other without MPI: the rank and the number of this process, and a function
allgather(own) that takes bytes and returns a list of the bytes of all ranks, in rank order. init() calls it a few times."""


def join_job(communicator=None, bootstrap=None):
    """Joins the job that mpirun or hororun started; alone, a job of one rank. `communicator`: of mpi4py, in place of all ranks.
    `bootstrap`: a Bootstrap, in place of MPI. Collective."""
    if bootstrap is not None:
        return _join_without_mpi(bootstrap)
    if communicator is None:
        return Context(created(LIBRARY.horo_init))
    from mpi4py import MPI
    return Context(created(LIBRARY.horo_init_communicator, MPI._addressof(communicator)))


def _join_without_mpi(bootstrap):
    errors = []

    def allgather(own, count, all_ranks, _data):
        try:
            gathered = b"".join(bootstrap.allgather(ctypes.string_at(own, count)))
            if len(gathered) != count * bootstrap.size:
                raise InvalidArgument(f"allgather returned {len(gathered)} bytes in place of {bootstrap.size} times {count}")
            ctypes.memmove(all_ranks, gathered, len(gathered))
            return 0
        except Exception as error:  # no exception may pass through the C library
            errors.append(error)
            return 1

    options = BootstrapOptions(ctypes.sizeof(BootstrapOptions), bootstrap.rank, bootstrap.size, ALLGATHER(allgather), None)
    try:
        return Context(created(LIBRARY.horo_init_bootstrap, options))
    except HoroError as error:
        raise error from (errors[0] if errors else None)


StepReport = collections.namedtuple("StepReport", "total_weight norm was_clipped is_finite non_finite_rank non_finite_gradient "
                                                  "non_finite_index")
StepReport.__doc__ = "The result of a step, the same on all ranks; see horo::StepReport of C++."
