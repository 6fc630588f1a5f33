"""Synchronous data-parallel training, started by mpirun.

  import horo
  horo.init()
  mean = horo.allreduce(loss)          # a number, a NumPy array, a torch.Tensor, any object with DLPack
  horo.shutdown()

Each function of this module is that of the job's Context (horo.job.Context). horo.torch has what training with PyTorch needs.
"""
import atexit
import os
import sys

from ._library import (LIBRARY, CommunicationError, DeviceError, HoroError, InvalidArgument, MismatchError, SharedMemoryError,
                       ShutdownError)
from .gradient_sync import Arena, GradientSync
from .job import ADASUM as Adasum
from .job import AVERAGE as Average
from .job import MAX as Max
from .job import MIN as Min
from .job import PRODUCT as Product
from .job import SUM as Sum
from .job import Bootstrap, Context, Handle, StepReport, join_job

__version__ = LIBRARY.horo_version().decode()
_job = None


def init(communicator=None, bootstrap=None):
    """Joins the job that mpirun or hororun started, and returns its Context. With `bootstrap`, a Bootstrap, no MPI is needed.
    Collective. Later calls return the same one."""
    global _job
    if _job is None:
        _job = join_job(communicator, bootstrap)
        atexit.register(_leave)
    return _job


def _leave():
    # A rank that fails must not wait for the others. It ends without leaving the job, so that mpirun ends the job.
    if hasattr(sys, "last_type"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
    shutdown()


def is_initialized():
    """True between init() and shutdown()."""
    return _job is not None


def shutdown():
    """Leaves the job. Collective. The interpreter calls it at its end, unless an exception ended the program."""
    global _job
    if _job is not None:
        atexit.unregister(_leave)
        job, _job = _job, None
        job.shutdown()


def job():
    """The Context of init()."""
    if _job is None:
        raise InvalidArgument("horo is not initialised; call horo.init() first")
    return _job


def __getattr__(name):
    # horo.rank(), horo.allreduce() and so on: the functions of the job's Context.
    if name.startswith("_") or not hasattr(Context, name):
        raise AttributeError(f"module 'horo' has no attribute '{name}'")
    return lambda *arguments, **options: getattr(job(), name)(*arguments, **options)
