"""Operations of the Python package, on the ranks of a job. Values differ by rank and index. Exits with 77 without NumPy."""
import array
import sys

try:
    import numpy as np
except ImportError:
    print("SKIPPED: NumPy is missing; scripts/install_deps.sh installs it")
    sys.exit(77)

import horo

horo.init()
RANK, SIZE = horo.rank(), horo.size()
MEAN = (SIZE - 1) / 2


def raises(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def check_allreduce():
    for dtype in (np.float32, np.float64, np.float16, np.int32, np.int64):
        values = np.arange(12, dtype=dtype).reshape(4, 3) + np.array(2 * RANK, dtype)
        kept = values.copy()
        assert np.array_equal(horo.allreduce(values), np.arange(12).reshape(4, 3) + (SIZE - 1)), dtype
        assert np.array_equal(values, kept)
        assert horo.allreduce_(values, horo.Max, "largest") is values
        assert np.array_equal(values, np.arange(12).reshape(4, 3) + 2 * (SIZE - 1))
    assert horo.allreduce(RANK, horo.Sum) == SIZE * (SIZE - 1) / 2
    assert horo.allreduce(np.ones(3), horo.Sum, prescale=2, postscale=0.5).tolist() == [SIZE] * 3
    buffer = array.array("f", [RANK, RANK + 1, RANK + 2.5])
    horo.allreduce_(buffer)
    assert buffer.tolist() == [MEAN, MEAN + 1, MEAN + 2.5]
    handles = [horo.allreduce_async_(np.full(5 + i, RANK + i, np.float32), name=f"async.{i}") for i in range(20)]
    for i, handle in enumerate(handles):
        assert handle.wait().tolist() == [MEAN + i] * (5 + i)
        assert handle.is_done()
    group = [np.full(3, RANK, np.float32), np.full((2, 2), RANK, np.int64)]
    horo.grouped_allreduce_(group, horo.Sum)
    assert group[0].tolist() == [SIZE * MEAN] * 3 and group[1].tolist() == [[SIZE * MEAN] * 2] * 2


def check_others():
    assert horo.broadcast(np.array([RANK + 5.0]), root=SIZE - 1)[0] == SIZE + 4
    rows = horo.allgather(np.full((RANK + 1, 2), RANK, np.int64))
    assert rows[:, 0].tolist() == [rank for rank in range(SIZE) for _ in range(rank + 1)]
    whole = np.arange(6 * SIZE, dtype=np.float64).reshape(2 * SIZE, 3)
    share = horo.reduce_scatter(whole * (RANK + 1), horo.Sum)
    assert np.array_equal(share, whole[2 * RANK:2 * RANK + 2] * SIZE * (SIZE + 1) / 2)
    output, received = horo.alltoall(np.array([[10 * RANK + i] for i in range(SIZE)], np.int32))
    assert output[:, 0].tolist() == [10 * rank + RANK for rank in range(SIZE)] and received == [1] * SIZE
    # Rank r sends i + r rows to rank i.
    splits = [i + RANK for i in range(SIZE)]
    output, received = horo.alltoall(np.full((sum(splits), 1), RANK, np.float32), splits)
    assert received == [RANK + rank for rank in range(SIZE)]
    assert output[:, 0].tolist() == [rank for rank in range(SIZE) for _ in range(RANK + rank)]
    assert horo.allgather_object({"rank": RANK}) == [{"rank": rank} for rank in range(SIZE)]
    assert horo.broadcast_object(["a", 1] if RANK == SIZE - 1 else None, root=SIZE - 1) == ["a", 1]
    horo.check_equal({"equal": np.ones(3)})
    if SIZE > 1:
        raises(horo.MismatchError, "'different'", lambda: horo.check_equal({"different": np.full(3, RANK)}))
        if RANK == 0:
            horo.send(np.array([7.0, 8.0]), 1, "message")
        if RANK == 1:
            assert horo.recv(np.zeros(2), 0, "message").tolist() == [7, 8]
    even = horo.job().process_set(list(range(0, SIZE, 2)))
    if even.includes_me():
        assert even.allreduce(1, horo.Sum) == even.size() == (SIZE + 1) // 2
    even.shutdown()
    assert horo.local_size() <= SIZE and horo.node_count() >= 1
    with horo.phase("forward"):
        horo.barrier()
    for _ in range(RANK):  # ranks with different numbers of steps
        horo.allreduce(np.ones(2), horo.Sum, "uneven")
    assert horo.join() in range(SIZE)


def check_gradients():
    gradients = {"weight": np.zeros((3, 5), np.float32), "bias": np.zeros(3, np.float32)}
    sync = horo.GradientSync(horo.job(), gradients, clip_norm=1e9)
    for step in range(4):
        gradients["weight"][:] = RANK + step
        gradients["bias"][:] = 2 * RANK
        sync.ready(1)
        sync.ready(0)
        sync.wait()
        assert np.all(gradients["weight"] == MEAN + step) and np.all(gradients["bias"] == 2 * MEAN)
    report = sync.report()
    assert report.is_finite and report.total_weight == SIZE
    assert abs(report.norm - np.sqrt(15 * (MEAN + 3) ** 2 + 3 * (2 * MEAN) ** 2)) < 1e-4
    with sync.no_sync():
        gradients["bias"][:] = RANK
        sync.ready(0)
        sync.ready(1)
        sync.wait()
    assert gradients["bias"].tolist() == [RANK] * 3 and sync.bucket_count() == 1
    raises(horo.InvalidArgument, "wire='float8'", lambda: horo.GradientSync(horo.job(), gradients, wire="float8"))


def check_errors():
    raises(horo.InvalidArgument, "not contiguous", lambda: horo.allreduce_(np.zeros((4, 4))[:, 1]))
    read_only = np.zeros(3)
    read_only.flags.writeable = False
    raises(horo.InvalidArgument, "read-only", lambda: horo.allreduce_(read_only))
    raises(horo.InvalidArgument, "<U1", lambda: horo.allreduce_(np.array(["a"])))
    raises(horo.InvalidArgument, "a dict is no tensor", lambda: horo.allreduce_({}))
    raises(horo.InvalidArgument, "has no rows", lambda: horo.allgather(np.array(1.0)))
    if SIZE > 1:
        raises(horo.MismatchError, "the shapes differ", lambda: horo.allreduce_(np.zeros(1 + RANK), name="shapes"))
    assert horo.allreduce(1.0, horo.Sum) == SIZE  # the job is usable after these errors


for check in (check_allreduce, check_others, check_gradients, check_errors):
    check()
if "--fail" in sys.argv and RANK == SIZE - 1:
    raise RuntimeError("planted")
if "--fail" in sys.argv:
    horo.barrier()
