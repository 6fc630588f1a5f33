"""The functions of libhoro_c, with their types. A call that fails raises an exception of this module.

ctypes releases the interpreter lock during each call, so other threads of Python continue while an operation blocks.
"""
import ctypes
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

_FILE = "libhoro_c.so.0.1"


class HoroError(RuntimeError):
    """An operation failed. The text is that of the C++ library."""


class InvalidArgument(HoroError, ValueError):
    """An argument or a setting is invalid. Nothing was submitted; the job remains usable."""


class MismatchError(HoroError):
    """Ranks disagree, such as about the shape of a tensor. Every rank gets this error; the job remains usable."""


class CommunicationError(HoroError):
    """A rank was lost, a wait timed out, or the transport failed. The job cannot continue."""


class SharedMemoryError(HoroError):
    """A node has too little shared memory. Every rank gets this error; the job remains usable."""


class DeviceError(HoroError):
    """A call of a GPU failed."""


class ShutdownError(HoroError):
    """This rank, or a rank that the operation needs, has shut down."""


# By horo_status.
_ERRORS = [None, HoroError, InvalidArgument, MismatchError, CommunicationError, SharedMemoryError, DeviceError, ShutdownError]


class Tensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("type", c_int), ("count", c_size_t),
                ("dimensions", POINTER(c_size_t)), ("dimension_count", c_size_t), ("device", c_void_p)]


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("op", c_int), ("root", c_int), ("prescale", c_double),
                ("postscale", c_double), ("stream", c_void_p)]


class GradientSyncOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("op", c_int), ("bucket_bytes", c_size_t),
                ("first_bucket_bytes", c_size_t), ("wire", c_int), ("compression", c_int), ("compression_rank", c_size_t),
                ("compression_fraction", c_double), ("backward_passes_per_step", c_size_t), ("find_unused", c_int),
                ("weighted", c_int), ("clip_norm", c_double), ("check_finite", c_int), ("reorder", c_int)]


class StepReport(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("was_exchanged", c_int), ("total_weight", c_double), ("norm", c_double),
                ("was_clipped", c_int), ("is_finite", c_int), ("non_finite_rank", c_int), ("non_finite_gradient", c_size_t),
                ("non_finite_index", c_size_t)]


# (own, bytes, all, data); 0 is success.
ALLGATHER = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p, c_void_p)


class BootstrapOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("rank", c_int), ("rank_count", c_int), ("allgather", ALLGATHER), ("data", c_void_p)]


# function: the types of its arguments. These functions return horo_status.
_CHECKED = {
    "horo_init": [POINTER(c_void_p)],
    "horo_init_communicator": [c_void_p, POINTER(c_void_p)],
    "horo_init_bootstrap": [POINTER(BootstrapOptions), POINTER(c_void_p)],
    "horo_shutdown": [c_void_p],
    "horo_process_set_create": [c_void_p, POINTER(c_int), c_size_t, POINTER(c_void_p)],
    "horo_barrier": [c_void_p, c_char_p],
    "horo_join": [c_void_p, POINTER(c_int)],
    "horo_check_equal": [c_void_p, POINTER(Tensor), c_size_t, c_char_p, c_uint64],
    "horo_broadcast_object": [c_void_p, c_char_p, c_size_t, c_int, c_char_p, POINTER(c_void_p), POINTER(c_size_t)],
    "horo_allgather_object": [c_void_p, c_char_p, c_size_t, c_char_p, POINTER(c_void_p), POINTER(c_size_t)],
    "horo_allreduce_async": [c_void_p, POINTER(Tensor), POINTER(Options), POINTER(c_void_p)],
    "horo_allreduce_group_async": [c_void_p, POINTER(Tensor), c_size_t, POINTER(Options), POINTER(c_void_p)],
    "horo_broadcast_async": [c_void_p, POINTER(Tensor), POINTER(Options), POINTER(c_void_p)],
    "horo_broadcast_group_async": [c_void_p, POINTER(Tensor), c_size_t, POINTER(Options), POINTER(c_void_p)],
    "horo_allgather_async": [c_void_p, POINTER(Tensor), POINTER(Tensor), POINTER(Options), POINTER(c_void_p)],
    "horo_reduce_scatter_async": [c_void_p, POINTER(Tensor), POINTER(Tensor), POINTER(Options), POINTER(c_void_p)],
    "horo_alltoall_async": [c_void_p, POINTER(Tensor), POINTER(c_size_t), POINTER(Tensor), POINTER(Options), POINTER(c_void_p)],
    "horo_send_async": [c_void_p, POINTER(Tensor), c_int, POINTER(c_void_p)],
    "horo_recv_async": [c_void_p, POINTER(Tensor), c_int, POINTER(c_void_p)],
    "horo_wait": [c_void_p],
    "horo_wait_on": [c_void_p, c_void_p],
    "horo_gradient_sync_create": [c_void_p, POINTER(Tensor), c_size_t, POINTER(GradientSyncOptions), POINTER(c_void_p)],
    "horo_gradient_sync_ready": [c_void_p, c_size_t],
    "horo_gradient_sync_ready_on": [c_void_p, c_size_t, c_void_p],
    "horo_gradient_sync_wait": [c_void_p],
    "horo_gradient_sync_wait_on": [c_void_p, c_void_p],
    "horo_gradient_sync_report": [c_void_p, POINTER(StepReport)],
    "horo_gradient_sync_begin_no_sync": [c_void_p],
    "horo_gradient_sync_end_no_sync": [c_void_p],
    "horo_gradient_sync_set_weight": [c_void_p, c_double],
    "horo_gradient_sync_unused": [c_void_p, POINTER(POINTER(c_size_t)), POINTER(c_size_t)],
    "horo_arena_create": [c_void_p, c_size_t, POINTER(c_void_p)],
    "horo_phase_begin": [c_void_p, c_char_p, POINTER(c_void_p)],
    "horo_pause_begin": [c_void_p, c_char_p, POINTER(c_void_p)],
    "horo_open_gpu": [c_void_p, POINTER(c_void_p)],
}
# function: the type of its result and the types of its arguments.
_PLAIN = {
    "horo_last_error": (c_char_p, []),
    "horo_version": (c_char_p, []),
    "horo_rank": (c_int, [c_void_p]),
    "horo_size": (c_int, [c_void_p]),
    "horo_local_rank": (c_int, [c_void_p]),
    "horo_local_size": (c_int, [c_void_p]),
    "horo_node": (c_int, [c_void_p]),
    "horo_node_count": (c_int, [c_void_p]),
    "horo_process_set_includes_me": (c_int, [c_void_p]),
    "horo_shard_rows": (c_size_t, [c_void_p, c_size_t]),
    "horo_free": (None, [c_void_p]),
    "horo_is_done": (c_int, [c_void_p]),
    "horo_handle_destroy": (None, [c_void_p]),
    "horo_gradient_sync_bucket_count": (c_size_t, [c_void_p]),
    "horo_gradient_sync_destroy": (None, [c_void_p]),
    "horo_arena_data": (c_void_p, [c_void_p]),
    "horo_arena_destroy": (None, [c_void_p]),
    "horo_scope_end": (None, [c_void_p]),
    "horo_device_destroy": (None, [c_void_p]),
}


def _open():
    packaged = Path(__file__).parent / "lib" / _FILE
    file = str(packaged) if packaged.exists() else _FILE
    try:
        # The components that Open MPI opens look for its symbols among the global ones.
        return ctypes.CDLL(file, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ImportError(f"the library of horo cannot be loaded: {error}; install horo with `cmake --install`, and add its "
                          "lib folder to LD_LIBRARY_PATH, or install the wheel of scripts/make_wheel.sh") from None


def _check(status, function, _arguments):
    if status != 0:
        text = LIBRARY.horo_last_error().decode(errors="replace")
        kind = _ERRORS[status] if status < len(_ERRORS) else HoroError
        raise kind(text or f"{function.__name__} failed with status {status}")
    return status


LIBRARY = _open()
for _name, _types in _CHECKED.items():
    _function = getattr(LIBRARY, _name)
    _function.argtypes, _function.restype, _function.errcheck = _types, c_int, _check
for _name, (_result, _types) in _PLAIN.items():
    _function = getattr(LIBRARY, _name)
    _function.argtypes, _function.restype = _types, _result


def created(function, *arguments):
    """The object that `function` stores in its last argument."""
    result = c_void_p()
    function(*arguments, ctypes.byref(result))
    return result


def encoded(name):
    return None if name is None else name.encode()
