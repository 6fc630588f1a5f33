"""Tensors of other libraries as horo_tensor: NumPy arrays, objects with DLPack such as those of PyTorch, JAX and CuPy, and
writable buffers such as array.array. No data is copied.
"""
import ctypes

from . import _library

# By horo_data_type: NumPy's type string, and DLPack's (code, bits).
_TYPES = [("f4", (2, 32)), ("f8", (2, 64)), ("f2", (2, 16)), (None, (4, 16)), ("i1", (0, 8)), ("u1", (1, 8)), ("i2", (0, 16)),
          ("u2", (1, 16)), ("i4", (0, 32)), ("i8", (0, 64)), ("b1", (6, 8))]
_OF_NUMPY = {name: index for index, (name, _) in enumerate(_TYPES) if name}
_OF_DLPACK = {pair: index for index, (_, pair) in enumerate(_TYPES)}
_KINDS = {"f": "efd", "i": "bhilq", "u": "BHILQ", "b": "?"}  # of the formats of buffers
_CPU, _CUDA = 1, 2  # kinds of DLDevice


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.argtypes, _get_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class View:
    """A contiguous tensor, whose memory the view keeps alive. `kept` is what owns it."""

    def __init__(self, kept, data, type_, shape, is_on_gpu=False):
        self.kept, self.data, self.type, self.shape, self.is_on_gpu = kept, data, type_, tuple(shape), is_on_gpu
        self._dimensions = (ctypes.c_size_t * max(1, len(self.shape)))(*self.shape)

    @property
    def count(self):
        result = 1
        for extent in self.shape:
            result *= extent
        return result

    def as_c(self, name=None, device=None):
        # A scalar has no dimensions; the C interface calls it a vector of one element.
        dimensions = ctypes.cast(self._dimensions, ctypes.POINTER(ctypes.c_size_t)) if self.shape else None
        return _library.Tensor(_library.encoded(name), self.data, self.type, self.count, dimensions, len(self.shape), device)


def _is_contiguous(shape, strides):
    expected = 1
    for extent, stride in reversed(list(zip(shape, strides))):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _of_dlpack(tensor):
    if getattr(tensor, "requires_grad", False):  # PyTorch: the values, without the graph
        tensor = tensor.detach()
    capsule = tensor.__dlpack__()
    dl = _DLTensor.from_address(_get_pointer(capsule, b"dltensor"))
    shape = [dl.shape[i] for i in range(dl.ndim)]
    if dl.strides and 0 not in shape and not _is_contiguous(shape, [dl.strides[i] for i in range(dl.ndim)]):
        raise _library.InvalidArgument(f"a tensor of shape {tuple(shape)} is not contiguous; pass tensor.contiguous()")
    type_ = _OF_DLPACK.get((dl.code, dl.bits)) if dl.lanes == 1 else None
    if type_ is None:
        raise _library.InvalidArgument(f"horo has no element type for DLPack's code {dl.code} with {dl.bits} bits")
    if dl.device_type not in (_CPU, _CUDA):
        raise _library.InvalidArgument(f"a tensor is on a device of DLPack's kind {dl.device_type}; horo uses host memory and CUDA")
    # The capsule keeps the tensor alive, and frees it when it is collected without having been consumed.
    return View(capsule, (dl.data or 0) + dl.byte_offset, type_, shape, dl.device_type == _CUDA)


def _of_numpy(array, writes):
    interface = array.__array_interface__
    address, is_read_only = interface["data"]
    if writes and is_read_only:
        raise _library.InvalidArgument("an array is read-only, but the operation writes to it; pass array.copy()")
    if interface["strides"] is not None:
        raise _library.InvalidArgument(f"an array of shape {interface['shape']} is not contiguous; pass "
                                       "numpy.ascontiguousarray(array)")
    order, name = interface["typestr"][0], interface["typestr"][1:]
    if order == ">" or name not in _OF_NUMPY:
        raise _library.InvalidArgument(f"horo has no element type for NumPy's {interface['typestr']}")
    return View(array, address, _OF_NUMPY[name], interface["shape"])


def _of_buffer(object_):
    buffer = memoryview(object_)
    if buffer.readonly or not buffer.c_contiguous:
        raise _library.InvalidArgument(f"a {type(object_).__name__} is read-only or not contiguous")
    kinds = [kind for kind, formats in _KINDS.items() if buffer.format.lstrip("@=<") in formats]
    name = f"{kinds[0]}{buffer.itemsize}" if kinds else ""
    if name not in _OF_NUMPY:
        raise _library.InvalidArgument(f"horo has no element type for the format '{buffer.format}' of a {type(object_).__name__}")
    memory = (ctypes.c_char * buffer.nbytes).from_buffer(buffer)
    return View((buffer, memory), ctypes.addressof(memory), _OF_NUMPY[name], buffer.shape)


def view_of(tensor, writes=True):
    """The memory of `tensor` as a View. Raises InvalidArgument if it is not contiguous, of another element type, or read-only
    although the operation writes to it."""
    if hasattr(tensor, "__array_interface__"):
        return _of_numpy(tensor, writes)
    if hasattr(tensor, "__dlpack__"):
        return _of_dlpack(tensor)
    try:
        memoryview(tensor)
    except TypeError:
        raise _library.InvalidArgument(f"a {type(tensor).__name__} is no tensor; pass a NumPy array, an object with __dlpack__ "
                                       "such as a torch.Tensor, or a writable buffer") from None
    return _of_buffer(tensor)


def copy_of(tensor):
    """A contiguous copy of the same library, without a graph."""
    if hasattr(tensor, "detach"):
        return tensor.detach().clone().contiguous()
    if hasattr(tensor, "__array_interface__"):
        return tensor.copy(order="C")
    raise _library.InvalidArgument(f"horo cannot copy a {type(tensor).__name__}; use the operation in place, such as allreduce_()")


def empty_like(tensor, shape):
    """A tensor of the same library, type and device, with undefined values."""
    if hasattr(tensor, "new_empty"):
        return tensor.detach().new_empty(shape)
    if hasattr(tensor, "__array_interface__"):
        import numpy
        return numpy.empty(shape, tensor.dtype)
    raise _library.InvalidArgument(f"horo cannot allocate a result like a {type(tensor).__name__}; pass a NumPy array or a torch.Tensor")
