#!/usr/bin/env python3
"""Runs the example programs with hororun. The environment variable BIN is the folder of the programs."""
import html.parser
import json
import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest
import unittest.mock
import zlib

BIN = os.environ["BIN"]
BUILT_WITH_CUDA = os.environ["BUILT_WITH_CUDA"] == "1"
LOSS = r"step +(\d+)  loss ([0-9.]+)"  # a line of own_model, tensor_parallel and pipeline
PARALLEL = ("tensor_parallel", "pipeline", "async_sgd")
TORCH = tuple(name for name in ("train_torch", "torch_bench") if os.path.exists(os.path.join(BIN, name)))  # in builds with libtorch


def hororun(ranks, program, *arguments):
    """Runs the program. Returns its output and its JSON report, or None if the program writes no report."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        with_report = [] if program in ("allreduce", "own_model", "linear_regression_c", *PARALLEL) else ["--json", report]
        done = subprocess.run(
            [os.path.join(BIN, "hororun"), "-np", str(ranks), os.path.join(BIN, program), *arguments, *with_report],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=200)
        if done.returncode != 0:
            raise AssertionError(f"{program} on {ranks} ranks: exit {done.returncode}\n{done.stdout}")
        if not with_report:
            return done.stdout, None
        with open(report) as file:
            return done.stdout, json.load(file)


# Rounding errors grow from step to step. The relative rounding error of float32 is 6e-8.
def expect_close(test, losses, expected):
    test.assertEqual(len(losses), len(expected))
    for step, (a, b) in enumerate(zip(losses, expected)):
        test.assertLess(abs(a - b) / abs(b), 1e-6 if step < 10 else 1e-5, f"step {step}")


class OpenTags(html.parser.HTMLParser):
    """The tags of a page that are not closed, and its attributes that refer to other files."""
    VOID = {"meta", "br"}

    def __init__(self, page):
        super().__init__()
        self.open, self.mistakes, self.references = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.references += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(tag)


class Training(unittest.TestCase):
    STEPS = ["--steps", "50", "--global-batch", "64", "--seed", "1"]

    def train(self, ranks, *more):
        return hororun(ranks, "train_mnist", *self.STEPS, *more)[1]

    def test_losses_are_independent_of_rank_count(self):
        alone = self.train(1)
        self.assertEqual(len(alone["losses"]), 50)
        for ranks in (2, 4, 8):
            report = self.train(ranks)
            expect_close(self, report["losses"], alone["losses"])
            self.assertEqual(report["control_messages_per_step"], 0)
            self.assertEqual(report["ranks"], ranks)
            self.assertEqual(set(report["step_ms"]), {"data_wait", "forward", "backward", "exposed_communication",
                                                      "optimizer", "transfer", "logging", "checkpoint", "total"})

    def test_bottleneck_report_is_printed_and_written(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            output, report = hororun(2, "train_mnist", "--model", "mlp", "--steps", "12", "--report", page)
            with open(page) as file:
                tags = OpenTags(file.read())
        self.assertEqual((tags.open, tags.mistakes, tags.references), ([], [], []))
        self.assertIn("bottleneck report: ", output)
        self.assertEqual(len(report["bottlenecks"]["ranks"]), 2)
        self.assertEqual(len(report["bottlenecks"]["model"]["predictions"]), 3)

    def test_perceptron_losses_are_independent_of_rank_count(self):
        steps = ["--steps", "40", "--global-batch", "64", "--seed", "1", "--model", "mlp"]
        alone = hororun(1, "train_mnist", *steps)[1]["losses"]
        self.assertEqual(len(alone), 40)
        for ranks in (2, 4):
            expect_close(self, hororun(ranks, "train_mnist", *steps)[1]["losses"], alone)

    def test_runs_are_bit_reproducible(self):
        self.assertEqual(self.train(4)["param_hash"], self.train(4)["param_hash"])

    def test_adasum_is_bit_reproducible(self):
        runs = [hororun(3, "train_mnist", *self.STEPS, "--op", "adasum")[1] for _ in range(2)]
        self.assertEqual(runs[0]["param_hash"], runs[1]["param_hash"])
        self.assertLess(runs[0]["losses"][-1], 0.7 * runs[0]["losses"][0])
        self.assertNotEqual(runs[0]["param_hash"], self.train(3)["param_hash"])

    def test_local_steps_train_alike_in_each_run(self):
        diloco = ["--update", "diloco", "--local-steps", "8", "--fragments", "3", "--overlap", "2", "--wire", "int8"]
        runs = [self.train(2, *diloco) for _ in range(2)]
        self.assertEqual(runs[0]["param_hash"], runs[1]["param_hash"])
        self.assertEqual(len(runs[0]["losses"]), 50)
        self.assertLess(runs[0]["losses"][-1], 0.9 * runs[0]["losses"][0])
        self.assertGreater(runs[0]["compression_rate"], 3)

    def test_adamw_reduces_loss_and_has_own_learning_rate(self):
        report = self.train(2, "--optimizer", "adamw", "--warm-up", "0")
        self.assertLess(report["losses"][-1], 0.7 * report["losses"][0])
        same = ["--optimizer", "adamw", "--warm-up", "0", "--lr", "0.001", "--weight-decay", "0.01"]
        self.assertEqual(self.train(2, *same)["param_hash"], report["param_hash"])

    def test_recipe_for_large_batches(self):
        report = self.train(2, "--optimizer", "lamb", "--warm-up", "4", "--schedule", "polynomial", "--linear-scaling", "32",
                            "--label-smoothing", "0.1", "--rate", "output.*=0.5", "--no-vector-decay", "--wire", "bf16")
        self.assertLess(report["losses"][-1], 0.8 * report["losses"][0])

    def test_sharded_optimizer(self):
        plain, sharded = (self.train(4, "--optimizer", "adamw", *more) for more in ([], ["--shard-optimizer"]))
        self.assertEqual(sharded["param_hash"], plain["param_hash"])
        self.assertLess(sharded["optimizer_state"]["bytes"], 0.26 * plain["optimizer_state"]["bytes"])

    def test_compressed_gradients(self):
        plain = self.train(2)
        self.assertEqual(plain["compression_rate"], 1)
        for options in (["powersgd", "--compression-rank", "2"], ["topk", "--compression-fraction", "0.02"]):
            report = self.train(2, "--compression", *options)
            self.assertGreater(report["compression_rate"], 10)
            self.assertLess(report["losses"][-1], report["losses"][0])
            self.assertNotEqual(report["param_hash"], plain["param_hash"])

    def test_sigterm_ends_training_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            report = os.path.join(folder, "report.json")
            job = subprocess.Popen([os.path.join(BIN, "hororun"), "-np", "2", os.path.join(BIN, "train_mnist"), "--epochs",
                                    "1000", "--global-batch", "64", "--log-every", "1", "--json", report],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(job.kill)
            while not re.search(r"step +3/", job.stdout.readline()):
                self.assertIsNone(job.poll())
            job.send_signal(signal.SIGTERM)
            output, errors = job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0, errors)
            self.assertRegex(output, r"training stops after step \d+, as a rank has requested")
            with open(report) as file:
                content = json.load(file)
        self.assertTrue(content["was_stopped"])
        self.assertEqual(len(content["losses"]), content["steps"])

    def test_allreduce_sums(self):
        self.assertIn("1 rank: x[0] = 1", hororun(1, "allreduce")[0])
        self.assertIn("3 ranks: x[0] = 6", hororun(3, "allreduce")[0])

    # The program prints 5 decimals; summation order may change the last one.
    def test_own_model_losses_are_independent_of_rank_count(self):
        def losses(ranks):
            return [(int(step), float(loss)) for step, loss in re.findall(LOSS, hororun(ranks, "own_model")[0])]

        alone = losses(1)
        self.assertEqual([step for step, _ in alone], [0, 400, 800, 1200, 1600, 1999])
        self.assertLess(alone[-1][1], 0.1 * alone[0][1])
        for ranks in (2, 4):
            for (step, loss), (same_step, expected) in zip(losses(ranks), alone, strict=True):
                self.assertEqual(step, same_step)
                self.assertAlmostEqual(loss, expected, delta=2e-5, msg=f"step {step}, {ranks} ranks")

    def test_own_model_losses_are_independent_of_memory(self):
        for ranks in (1, 2, 4):
            in_host_memory, on_stand_in = (re.findall(LOSS, hororun(ranks, "own_model", "--device", device)[0])
                                           for device in ("host", "stand-in"))
            self.assertEqual(len(in_host_memory), 6)
            self.assertEqual(on_stand_in, in_host_memory, f"{ranks} ranks")


class Parallel(unittest.TestCase):
    def expect_as_one_rank(self, program, ranks, *arguments):
        """The losses and the checksums of the weights must be those of one rank, up to rounding."""
        outputs = [hororun(count, program, "--steps", "51", *arguments)[0] for count in (1, ranks)]
        losses = [[(int(step), float(loss)) for step, loss in re.findall(LOSS, output)] for output in outputs]
        self.assertEqual([step for step, _ in losses[0]], [0, 50])
        self.assertLess(losses[0][-1][1], 0.5 * losses[0][0][1])
        sums = [[float(number) for number in re.findall(r"-?\d+\.\d+", output.splitlines()[-1])] for output in outputs]
        self.assertGreater(len(sums[0]), 0)
        for values, expected in zip([loss for _, loss in losses[1]] + sums[1], [loss for _, loss in losses[0]] + sums[0],
                                    strict=True):
            self.assertAlmostEqual(values, expected, delta=1e-4 * max(1, abs(expected)), msg=f"{program}, {ranks} ranks")

    def test_tensor_parallel_trains_as_one_rank(self):
        self.expect_as_one_rank("tensor_parallel", 3)

    def test_pipeline_trains_as_one_rank(self):
        self.expect_as_one_rank("pipeline", 4)

    def test_async_sgd_converges_with_one_slow_worker(self):
        output = hororun(4, "async_sgd", "--steps", "100", "--staleness", "3", "--slow-ms", "2")[0]
        before, after = (float(number) for number in re.search(r"loss (\S+) before training, (\S+) after", output).groups())
        self.assertLess(after, 0.5 * before, output)
        updates, lead = re.search(r"(\d+) updates, workers at most (\d+) steps ahead", output).groups()
        self.assertEqual(int(updates), 300)
        self.assertLessEqual(int(lead), 3)


    def test_killed_worker_ends_the_job_with_its_name(self):
        steps = "987654"  # recognises the processes of this test
        job = subprocess.Popen([os.path.join(BIN, "hororun"), "-np", "3", os.path.join(BIN, "async_sgd"), "--steps", steps],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.assertIn("server rank 2 serves 2 workers", job.stdout.readline())
        os.kill(self.pid_of_rank(1, steps), signal.SIGKILL)
        output = job.communicate(timeout=100)[0]
        self.assertEqual(job.returncode, 137, output)
        self.assertRegex(output, r"hororun: rank 1 \(host .*\) was killed by signal 9")

    @staticmethod
    def pid_of_rank(rank, argument):
        for folder in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{folder}/cmdline", "rb") as file:
                    arguments = file.read().split(b"\0")
                with open(f"/proc/{folder}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
            except OSError:
                continue
            if arguments[0].endswith(b"async_sgd") and argument.encode() in arguments \
                    and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
                return int(folder)
        raise AssertionError(f"no process of rank {rank}")


class CommandLines(unittest.TestCase):
    PROGRAMS = ("train_mnist", "train_cifar", "train_gpt", "allreduce_bench", "gradient_bench", "collective_bench", "negotiation_bench",
                "device_bench", "train_step_bench", "own_model", *PARALLEL, *TORCH)

    def run_program(self, program, *arguments):
        return subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True)

    def test_command_in_help_works(self):
        for program in self.PROGRAMS:
            texts = {self.run_program(program, option).stdout for option in ("-h", "--help")}
            self.assertEqual(len(texts), 1)
            command, = re.findall(r"^  (\S+/hororun -n \d+ .*)$", texts.pop(), re.MULTILINE)
            if program == "negotiation_bench":  # the fastest example
                done = subprocess.run(command.split(), capture_output=True, text=True, timeout=200)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_out_of_range_values_give_one_line_error(self):
        for program, option, value, requirement in (
                ("train_mnist", "--epochs", "99999999999", "a whole number from 1 to 1000000"),
                ("train_mnist", "--epochs", "three", "a whole number from 1 to 1000000"),
                ("train_mnist", "--global-batch", "-3", "a whole number from 1 to 1000000000"),
                ("train_mnist", "--lr", "nan", "a number above 0"),
                ("train_cifar", "--momentum", "1", "a number from 0 to below 1"),
                ("allreduce_bench", "--rounds", "0", "a whole number from 1 to 1000000"),
                ("collective_bench", "--max-mib", "99999999999", "a whole number from 0 to 1048576"),
                ("negotiation_bench", "--count", "2,0", "a whole number from 1 to 4096"),
                ("negotiation_bench", "--step-ms", "inf", "a number above 0"),
                ("device_bench", "--samples", "-1", "a whole number from 1 to 1000000")):
            done = self.run_program(program, option, value)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(f"{program}: {option} {value.split(',')[-1]}: the value must be {requirement}", done.stderr)

    def test_epochs_and_steps_exclude_each_other(self):
        done = self.run_program("train_mnist", "--epochs", "2", "--steps", "10")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "train_mnist: --epochs 2 and --steps 10 exclude each other; leave one out\n")

    def test_unknown_options_and_extra_arguments_are_rejected(self):
        for program in self.PROGRAMS:
            for arguments in (["--batch", "3"], ["word"]):
                done = self.run_program(program, *arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("--help lists the options", done.stderr)


class C(unittest.TestCase):
    def test_line_is_independent_of_rank_count(self):
        alone = hororun(1, "linear_regression_c")[0]
        self.assertIn("y = 3.00 x -1.00\n", alone)
        for ranks in (2, 3, 7):
            self.assertEqual(hororun(ranks, "linear_regression_c")[0], alone)


class Texts(unittest.TestCase):
    MODEL = ["--layers", "1", "--heads", "2", "--width", "16", "--window", "24", "--sample", "30"]

    def train(self, ranks, *more):
        return hororun(ranks, "train_gpt", *self.MODEL, "--steps", "30", "--warm-up", "5", "--schedule", "constant", *more)

    # AdamW divides by the gradients, which amplifies rounding.
    def test_losses_are_independent_of_rank_count(self):
        alone = self.train(1, "--dropout", "0.1")[1]["losses"]
        self.assertLess(alone[-1], 0.95 * alone[0])
        for ranks in (2, 3):
            report = self.train(ranks, "--dropout", "0.1")[1]
            for a, b in zip(report["losses"], alone):
                self.assertLess(abs(a - b) / abs(b), 1e-3)

    def test_sample_continues_prompt(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "input.txt"), "w") as file:
                file.write("the cat sat on the mat\n" * 200)
            samples = [self.train(1, "--data", folder, "--prompt", "the ", *more)[0].partition("sample:\n")[2]
                       for more in ([], [], ["--seed", "2"], ["--symbols", "bytes", "--top-k", "3"])]
        self.assertEqual(samples[0], samples[1])
        self.assertNotEqual(samples[0], samples[2])
        self.assertEqual([len(sample) for sample in samples[:3]], [len("the ") + 30 + 1] * 3)
        self.assertTrue(all(sample.startswith("the ") for sample in samples))

    def test_rejects_what_does_not_fit(self):
        for arguments, text in ((["--data", "/no/such"], "/no/such: cannot be opened"),
                                (["--prompt", "x"], "the character 'x' is not in the vocabulary"),
                                (["--width", "15"], "the width must be a multiple of the number of heads"),
                                (["--temperature", "-1"], "--temperature -1")):
            model = [word for option in zip(self.MODEL[::2], self.MODEL[1::2]) if option[0] not in arguments for word in option]
            done = subprocess.run([os.path.join(BIN, "train_gpt"), *model, *arguments], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertIn(text, done.stderr)


def png_bytes(width, height, grey):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([grey] * width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Photographs(unittest.TestCase):
    STEPS = ["--steps", "8", "--global-batch", "32", "--warm-up", "20"]

    def train(self, ranks, *more):
        return hororun(ranks, "train_cifar", *self.STEPS, *more)[1]

    # Batch normalisation depends on the images of one pass. One rank with two passes per step therefore gets the same
    # losses as two ranks with one pass.
    def test_residual_network_losses_depend_on_passes_not_ranks(self):
        alone = self.train(1, "--accumulate", "2")
        self.assertEqual(len(alone["losses"]), 8)
        together = self.train(2)
        expect_close(self, together["losses"], alone["losses"])
        self.assertEqual(together["control_messages_per_step"], 0)
        self.assertEqual(together["param_hash"], self.train(2)["param_hash"])
        self.assertNotEqual(together["losses"], self.train(2, "--augmentation", "none")["losses"])
        pixels = self.train(2, "--inputs", "pixels")["param_hash"]
        self.assertEqual(pixels, self.train(2, "--inputs", "pixels", "--augmentation", "step")["param_hash"])

    # Three ranks have different numbers of images.
    def test_synchronised_batch_norm_losses_are_independent_of_rank_count(self):
        alone = self.train(1)["losses"]
        for ranks in (2, 3):
            losses = self.train(ranks, "--sync-batch-norm")["losses"]
            for a, b in zip(losses[:4], alone):
                self.assertLess(abs(a - b) / abs(b), 1e-4)

    def test_losses_without_batch_norm_are_independent_of_rank_count(self):
        alone = self.train(1, "--model", "cnn")["losses"]
        for ranks in (2, 3):
            expect_close(self, self.train(ranks, "--model", "cnn")["losses"], alone)

    def test_reads_files_of_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, count in (("data_batch_1", 96), ("data_batch_2", 64), ("test_batch", 40)):
                with open(os.path.join(folder, name + ".bin"), "wb") as file:
                    for i in range(count):  # the class is the brightness, which a few steps fit
                        file.write(bytes([i % 2]) + bytes([150 * (i % 2) + i % 57]) * 3072)
            output, report = hororun(2, "train_cifar", "--data", folder, "--model", "cnn", "--global-batch", "32",
                                     "--warm-up", "0", "--lr", "0.02", "--epochs", "6")
        self.assertEqual((report["steps"], report["epochs"]), (30, 6))
        self.assertLess(report["losses"][-1], 0.5 * report["losses"][0])
        self.assertIn("(40 of 40)", output)

    def test_image_folder_and_packed_images_train_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            for split, count in (("train", 64), ("test", 20)):
                for i in range(count):  # the class is the brightness
                    file = os.path.join(folder, "files", split, f"class{i % 2}", f"{i}.png")
                    os.makedirs(os.path.dirname(file), exist_ok=True)
                    with open(file, "wb") as png:
                        png.write(png_bytes(40, 36, 150 * (i % 2) + i % 57))
                subprocess.run([os.path.join(BIN, "hororun"), "pack", os.path.join(folder, "files", split),
                                os.path.join(folder, "packed", split)], check=True, capture_output=True)
            options = ["--model", "cnn", "--global-batch", "24", "--last-batch", "pad", "--warm-up", "0", "--lr", "0.02",
                       "--epochs", "2"]
            files, packed = (hororun(2, "train_cifar", "--data", os.path.join(folder, kind), *options)[1]
                             for kind in ("files", "packed"))
            self.assertEqual(files["steps"], 6)
            self.assertEqual(packed["param_hash"], files["param_hash"])
            damaged = os.path.join(folder, "files", "train", "class0", "0.png")
            with open(damaged, "r+b") as file:
                file.seek(50)
                file.write(b"damage")
            done = subprocess.run([os.path.join(BIN, "train_cifar"), "--data", os.path.join(folder, "files"), *options],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(damaged, done.stderr)
            output, report = hororun(2, "train_cifar", "--data", os.path.join(folder, "files"), *options, "--bad-samples",
                                     "skip")
            self.assertGreaterEqual(report["bad_samples"], 2)
            self.assertIn("could not be read and were skipped", output)

    def test_folder_without_images_gives_one_line_error(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([os.path.join(BIN, "train_cifar"), "--data", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no data_batch*.bin", done.stderr)


class OnGpus(unittest.TestCase):
    # Hides the GPUs.
    ENVIRONMENT = dict(os.environ, CUDA_VISIBLE_DEVICES="")

    def error_of(self, *arguments, program="train_mnist"):
        done = subprocess.run([os.path.join(BIN, program), *arguments], capture_output=True, text=True, env=self.ENVIRONMENT)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.returncode, done.stderr

    def test_training_without_gpu_reports_it(self):
        for program, device in (("train_mnist", "cuda"), ("own_model", "gpu")):
            code, text = self.error_of("--device", device, program=program)
            self.assertEqual(code, 1, text)
            self.assertIn("GPU" if BUILT_WITH_CUDA else "this build of horo has no CUDA; ", text)

    def test_cpu_precision_is_float32(self):
        self.assertEqual(self.error_of("--precision", "bfloat16")[0], 2)
        self.assertIn("--device cuda", self.error_of("--precision", "bfloat16")[1])
        self.assertIn("choose cpu or cuda", self.error_of("--device", "tpu")[1])


class Benchmarks(unittest.TestCase):
    def test_allreduce_bench_checks_and_reports(self):
        _, report = hororun(2, "allreduce_bench", "--rounds", "2", "--max-mib", "1")
        self.assertGreater(report["memcpy_gbps"], 0)
        self.assertEqual(report["rows"][0]["bytes"], 4)
        self.assertEqual(report["rows"][-1]["bytes"], 1 << 20)
        for row in report["rows"]:
            self.assertEqual(set(row["horo_us"]), {"min", "median", "max"})
            self.assertEqual(set(row["mpi_us"]), {"min", "median", "max"})
            self.assertGreater(row["ratio"], 0)

    def test_gradient_bench_checks_and_reports(self):
        for ranks in (2, 3):
            _, report = hororun(ranks, "gradient_bench", "--model", "tiny1000", "--rounds", "2")
            self.assertEqual(report["tensors"], 1000)
            self.assertIn("ratio_mpi_flat", report)

    def test_benchmarks_measure_horo_alone(self):
        _, report = hororun(2, "allreduce_bench", "--rounds", "2", "--alone", "--sizes", "4,1000")
        self.assertEqual([row["bytes"] for row in report["rows"]], [4, 1000])
        self.assertNotIn("mpi_us", report["rows"][0])
        _, report = hororun(2, "gradient_bench", "--model", "tiny1000", "--rounds", "2", "--alone")
        self.assertIn("horo_us", report)
        self.assertNotIn("mpi_flat_us", report)

    def test_collective_bench_covers_every_collective_and_type(self):
        kinds = ["allreduce", "reduce_scatter", "allgather", "broadcast", "alltoall"]
        for ranks in (2, 3):
            _, report = hororun(ranks, "collective_bench", "--collective", "all", "--type", "all", "--sizes", "40",
                                "--rounds", "1")
            rows = report["rows"]
            self.assertEqual([row["collective"] for row in rows],
                             [kind for kind in kinds for _ in range(10)] + ["barrier"])
            self.assertEqual({row["type"] for row in rows}, {"float32", "float64", "float16", "bfloat16", "int8", "uint8",
                                                             "int16", "uint16", "int32", "int64"})
            for row in rows[:-1]:
                self.assertEqual(row["bytes"], 40)
                factor = {"allreduce": 2 * (ranks - 1) / ranks, "broadcast": 1}.get(row["collective"], (ranks - 1) / ranks)
                self.assertAlmostEqual(row["busbw_gbps"], row["algbw_gbps"] * factor)
                self.assertAlmostEqual(row["algbw_gbps"], 40 / row["horo_us"]["median"] / 1e3)
                self.assertAlmostEqual(row["ratio"], row["mpi_us"]["median"] / row["horo_us"]["median"])

    def test_collective_bench_compares_algorithms_in_one_run(self):
        algorithms = ["shared_memory", "ring", "hierarchical", "parameter_server", "mpi"]
        _, report = hororun(3, "collective_bench", "--algorithm", ",".join(algorithms), "--collective",
                            "allreduce,alltoall", "--sizes", "4000", "--rounds", "1", "--op", "average")
        for row in report["rows"]:
            self.assertLessEqual({f"horo_{algorithm}_us" for algorithm in algorithms} | {"mpi_us"}, set(row))

    def test_collective_bench_compares_types_at_same_element_count(self):
        _, report = hororun(2, "collective_bench", "--compare-types", "--type", "float32,bfloat16,float16", "--sizes",
                            "4,4096", "--rounds", "2")
        self.assertEqual([row["count"] for row in report["comparisons"]], [1, 1024])
        for row in report["comparisons"]:
            self.assertEqual(row["float32_ratio"], 1)
            self.assertGreater(row["bfloat16_ratio"], 0)
            self.assertGreater(row["float16_us"]["median"], 0)

    def test_collective_bench_rejects_unknown_values(self):
        for option, word in (("--collective", "gather"), ("--type", "float31"), ("--op", "mean")):
            done = subprocess.run([os.path.join(BIN, "collective_bench"), option, word], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{option} {word}: '{word}' is not known; choose ", done.stderr)

    def test_allreduce_bench_measures_exchange_during_compute(self):
        for environment in ({}, {"HORO_RANKS_PER_NODE": "1"}):
            with unittest.mock.patch.dict(os.environ, environment):
                _, report = hororun(2, "allreduce_bench", "--while-computing", "--sizes", "10000000", "--rounds", "1")
            row, = report["rows"]
            self.assertEqual(row["bytes"], 10000000)
            self.assertAlmostEqual(row["exchange_loss"], row["exchange_while_computing_us"]["median"] /
                                   row["exchange_alone_us"]["median"] - 1)
            self.assertLess(row["computation_loss"], 1)
            self.assertGreater(row["core_share"], 0)

    def test_negotiation_bench_measures_latencies(self):
        for ranks in (1, 3):
            _, report = hororun(ranks, "negotiation_bench", "--rounds", "50")
            self.assertEqual((report["ranks"], report["nodes"]), (ranks, 1))
            for what in ("horo", "mpi"):
                self.assertLessEqual(report[what]["p50_us"], report[what]["p99_us"])

    def test_negotiation_bench_counts_no_messages_for_plan(self):
        _, report = hororun(1, "negotiation_bench", "--count", "1,2,8,64", "--ranks-per-node", "2", "--tensors", "5")
        rows = report["control_traffic"]
        self.assertEqual([row["ranks"] for row in rows], [ranks for ranks in (1, 2, 8, 64) for _ in range(5)])
        for row in rows:
            traffic = row["traffic"]
            if row["way"] == "plan":
                self.assertEqual(set(traffic.values()), {0}, f"{row['ranks']} ranks")
            elif not row["way"].startswith("Horovod"):
                self.assertEqual(traffic["messages_in_nodes"] > 0, row["ranks"] > 1)
                self.assertEqual(traffic["messages_between_nodes"] > 0, row["ranks"] > 2)
                self.assertEqual(traffic["most_between_nodes"] > 0, row["ranks"] > 2)
                if row["ranks"] == 64:  # no rank exchanges messages with all 32 nodes
                    self.assertLess(traffic["most_between_nodes"], traffic["messages_between_nodes"] / 4)

    def test_sizes_with_partial_elements_are_rejected(self):
        for sizes in ("6", "4,,8", "4,x", "0", "-4"):
            done = subprocess.run([os.path.join(BIN, "allreduce_bench"), "--sizes=" + sizes],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not a multiple of 4 bytes from 4 to", done.stderr)

    def test_tensors_are_listed_without_mpi(self):
        done = subprocess.run([os.path.join(BIN, "gradient_bench"), "--model", "resnet50", "--list-tensors"],
                              capture_output=True, text=True)
        counts = [int(line) for line in done.stdout.split()]
        self.assertEqual((len(counts), sum(counts), counts[0]), (161, 25557032, 64 * 3 * 7 * 7))
        done = subprocess.run([os.path.join(BIN, "gradient_bench"), "--model", "gpt2", "--list-tensors"],
                              capture_output=True, text=True)
        counts = [int(line) for line in done.stdout.split()]
        self.assertEqual((len(counts), sum(counts), counts[0]), (148, 124439808, 50257 * 768))

    def test_device_bench_checks_and_reports_on_stand_in(self):
        output, report = hororun(1, "device_bench", "--device", "host", "--divide", "1000", "--samples", "2")
        self.assertEqual([(row["model"], row["wire"], row["tensors"]) for row in report["moves"][::2]],
                         [(model, wire, tensors) for model, tensors in (("resnet50", 161), ("gpt2", 148))
                          for wire in ("float32", "bfloat16")])
        self.assertIn("host stand-in", output)
        for row in report["moves"]:
            self.assertAlmostEqual(row["per_copy"], row["gbps"] / report["copy"]["gbps"])
        self.assertGreater(report["adamw"]["values"], 124000)
        self.assertGreaterEqual(report["exchange"]["chunks"], 1)
        for row in report["latency"]:
            self.assertLessEqual(row["p50_us"], row["p99_us"])

    def test_device_bench_compares_connections_on_stand_ins(self):
        output, report = hororun(1, "device_bench", "--device", "host", "--divide", "1000", "--samples", "2", "--gpus", "3")
        self.assertIn("over 3 devices", output)
        self.assertEqual([(row["connection"], row["ranks"]) for row in report["connections"]], [("nonblocking", 3)] * 4)
        self.assertEqual([row["calls"] for row in report["connections"]][:2], [1, 4])
        for row in report["connections"]:
            self.assertGreater(row["us"]["median"], 0)

    def test_train_step_bench_runs_on_stand_in(self):
        output, report = hororun(2, "train_step_bench", "--device", "host", "--divide", "256", "--samples", "1", "--precision", "float32",
                                 "--only", "resnet20")
        self.assertIn("2 ranks", output)
        self.assertEqual([(row["mode"], row["check_finite"]) for row in report["rows"]],
                         [(mode, checked) for checked in (False, True) for mode in ("plain", "graph")])
        for row in report["rows"]:
            self.assertGreater(row["median_ms"], 0)

    def test_device_bench_without_gpu_is_skipped_with_reason(self):
        done = subprocess.run([os.path.join(BIN, "device_bench")], capture_output=True, text=True,
                              env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        self.assertEqual((done.returncode, done.stdout), (77, ""))
        self.assertIn("no GPU is usable here", done.stderr)


if __name__ == "__main__":
    unittest.main()
