"""A job without MPI and its launcher: this script starts its ranks, which gather through files. With --torch, through the gloo of
torch.distributed, as torchrun would start them. Exits with 77 if a module is missing."""
import array
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RANKS = 3


class Files:
    def __init__(self, folder, rank):
        self.folder, self.rank, self.calls = Path(folder), rank, 0

    def allgather(self, own):
        self.calls += 1
        new = self.folder / f"new.{self.calls}.{self.rank}"
        new.write_bytes(own)
        new.rename(self.folder / f"{self.calls}.{self.rank}")  # complete when the others see it
        parts = [self.folder / f"{self.calls}.{rank}" for rank in range(RANKS)]
        while not all(part.exists() for part in parts):
            time.sleep(0.001)
        return [part.read_bytes() for part in parts]


def check(horo, rank):
    assert (horo.rank(), horo.size()) == (rank, RANKS)
    buffer = array.array("f", [rank, 2 * rank + 1])
    horo.allreduce_(buffer)
    assert buffer.tolist() == [1, 3], buffer
    horo.shutdown()


def run_rank(folder, rank, with_torch):
    import horo
    if not with_torch:
        try:
            horo.init(bootstrap=horo.Bootstrap(rank, RANKS, lambda own: [own]))
        except horo.CommunicationError as error:
            assert "allgather returned" in str(error.__cause__), error.__cause__
        else:
            raise AssertionError("a wrong number of bytes was accepted")
        horo.init(bootstrap=horo.Bootstrap(rank, RANKS, Files(folder, rank).allgather))
        return check(horo, rank)
    import horo.torch
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    horo.init(bootstrap=horo.torch.bootstrap())
    dist.destroy_process_group()
    return check(horo, rank)


def main():
    with_torch = "--torch" in sys.argv
    if with_torch:
        try:
            import torch  # noqa: F401
        except ImportError:
            print("SKIPPED: PyTorch is missing; pass HORO_PYTHON_WITH_TORCH to CMake")
            return 77
    if "--rank" in sys.argv:
        at = sys.argv.index("--rank")
        run_rank(sys.argv[at + 1], int(sys.argv[at + 2]), with_torch)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--rank", folder, str(rank)],
                                  env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"}) for rank in range(RANKS)]
        while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
            time.sleep(0.01)
        for rank in ranks:  # those that wait for a rank that has failed
            rank.terminate()
        return max(abs(rank.wait()) for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
