// Measures how many samples per second a DataLoader reads from a folder of many small image files,
// and from the same files packed by `hororun pack`. Without MPI, on one process.
//
//   build/release/bin/loader_bench --files 100000 --workers 2
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "examples/benchmarks/bench_program.h"
#include "examples/command_line.h"
#include "ops/data/data_loader.h"
#include "ops/data/images/image_dataset.h"
#include "ops/data/records/labelled_files.h"
#include "ops/data/records/pack_folder.h"
#include "ops/data/records/read_file.h"
#include "ops/data/records/record_reader.h"

namespace {
namespace bench = horo::bench;
namespace fs = std::filesystem;
namespace ops = horo::ops;
using horo::examples::count_value;

struct Options {
  std::size_t files = 100'000;
  std::size_t classes = 100;
  std::size_t side = 32;
  std::size_t workers = 2;
  std::size_t batch = 256;
  int rounds = 3;
  std::string directory = (fs::temp_directory_path() / "horo_loader_bench").string();
  std::string json;
};

void append_number(std::string& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(number >> shift & 0xff);
}

void append_chunk(std::string& png, const std::string& type_and_data) {
  append_number(png, static_cast<std::uint32_t>(type_and_data.size() - 4));
  png += type_and_data;
  append_number(
      png, static_cast<std::uint32_t>(crc32_z(
               0, reinterpret_cast<const Bytef*>(type_and_data.data()), type_and_data.size())));
}

/// A PNG file of side x side coloured pixels with some noise.
std::string make_png(std::size_t side, std::uint64_t seed) {
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed + 1));
  std::string rows;
  for (std::size_t y = 0; y < side; ++y) {
    rows += '\0';  // no filter
    for (std::size_t x = 0; x < 3 * side; ++x)
      rows += static_cast<char>((seed * 37 + 5 * y + 3 * x + random() % 8) & 0xff);
  }
  uLongf size = compressBound(rows.size());
  std::string data(size, '\0');
  compress2(reinterpret_cast<Bytef*>(data.data()), &size,
            reinterpret_cast<const Bytef*>(rows.data()), rows.size(), 6);
  data.resize(size);
  std::string header = "IHDR";
  append_number(header, static_cast<std::uint32_t>(side));
  append_number(header, static_cast<std::uint32_t>(side));
  header += std::string("\x08\x02\0\0\0", 5);  // 8 bits, colours
  std::string png = "\x89PNG\r\n\x1a\n";
  append_chunk(png, header);
  append_chunk(png, "IDAT" + data);
  append_chunk(png, "IEND");
  return png;
}

void write_files(const Options& options, const fs::path& folder) {
  for (std::size_t i = 0; i < options.files; ++i) {
    const fs::path of_class = folder / fmt::format("class_{:04}", i % options.classes);
    if (i < options.classes) fs::create_directories(of_class);
    const std::string png = make_png(options.side, i);
    std::ofstream(of_class / fmt::format("{:07}.png", i), std::ios::binary)
        .write(png.data(), std::ssize(png));
  }
}

/// Asks the kernel to drop the pages of a file from its cache. The directory entries and inodes
/// stay cached.
void drop_pages(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

void drop_pages_below(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) drop_pages(entry.path());
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What one epoch took.
struct Epoch {
  double seconds = 0;
  double reading_us = 0;  // per sample, of one worker
  double cpu_us = 0;      // of this
};

Epoch load_epoch(const ops::Dataset& dataset, const Options& options, bool is_shuffled) {
  const ops::GlobalSampler sampler({.dataset_size = dataset.size(),
                                    .global_batch = options.batch,
                                    .is_shuffled = is_shuffled,
                                    .last_batch = ops::LastBatch::kPartial},
                                   0, 1);
  Epoch epoch;
  epoch.seconds = seconds_of([&] {
    ops::DataLoader loader(dataset, sampler, 0, sampler.steps_per_epoch(),
                           {.threads = options.workers});
    while (loader.next()) continue;
    const ops::ReadingWork work = loader.report().reading;
    const auto per_sample = [&](std::chrono::nanoseconds time) {
      return std::chrono::duration<double, std::micro>(time).count() /
             static_cast<double>(dataset.size());
    };
    epoch.reading_us = per_sample(work.time);
    epoch.cpu_us = per_sample(work.cpu_time);
  });
  return epoch;
}

/// One way to read the samples.
struct Contender {
  std::string name;
  fs::path directory;
  bool is_shuffled;
  bool is_cold;
};

nlohmann::json measure(const Options& options, const Contender& contender) {
  const auto dataset = ops::open_images(contender.directory);
  std::vector<Epoch> epochs;
  for (int round = contender.is_cold ? 0 : -1; round < options.rounds; ++round) {
    if (contender.is_cold) drop_pages_below(contender.directory);
    const Epoch epoch = load_epoch(*dataset, options, contender.is_shuffled);
    if (round >= 0) epochs.push_back(epoch);
  }
  std::ranges::sort(epochs, {}, &Epoch::seconds);
  const Epoch median = epochs[epochs.size() / 2];
  const double rate = static_cast<double>(options.files) / median.seconds;
  fmt::print("{:<28} {:>12.0f} {:>12.0f} {:>12.0f} {:>14.1f} {:>12.1f}\n", contender.name, rate,
             static_cast<double>(options.files) / epochs.back().seconds,
             static_cast<double>(options.files) / epochs.front().seconds, median.reading_us,
             median.cpu_us);
  return {{"way", contender.name},
          {"samples_per_second", rate},
          {"reading_us", median.reading_us},
          {"reading_cpu_us", median.cpu_us}};
}

void run(const Options& options) {
  const fs::path directory = options.directory;
  const fs::path folder = directory / "files", packed = directory / "packed";
  HORO_CHECK(!fs::exists(directory),
             fmt::format("{} exists already; remove it, or name another directory with --directory",
                         directory.string()));
  const double writing = seconds_of([&] { write_files(options, folder); });
  ops::PackReport pack;
  const double packing =
      seconds_of([&] { pack = ops::pack_folder(folder, packed, std::uint64_t{1} << 30); });
  fmt::print(
      "{} PNG files of {} x {} pixels, {:.1f} MB, written in {:.1f} s, packed in {:.1f} s; "
      "{} workers, batches of {}\n",
      options.files, options.side, options.side, static_cast<double>(pack.bytes) / 1e6, writing,
      packing, options.workers, options.batch);
  fmt::print("{:<28} {:>12} {:>12} {:>12} {:>14} {:>12}\n", "samples/s", "median", "least", "most",
             "us per sample", "of it CPU");
  nlohmann::json rows = nlohmann::json::array();
  for (const bool is_cold : {false, true})
    for (const bool is_shuffled : {true, false})
      for (const auto& [name, path] : {std::pair{"files", folder}, std::pair{"packed", packed}})
        rows.push_back(
            measure(options, {fmt::format("{}, {}, {}", name, is_shuffled ? "random" : "sequential",
                                          is_cold ? "cold" : "warm"),
                              path, is_shuffled, is_cold}));
  fs::remove_all(directory);
  if (!options.json.empty())
    bench::write_json({{"files", options.files}, {"bytes", pack.bytes}, {"loader", rows}},
                      options.json);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  namespace po = boost::program_options;
  po::options_description description("Options");
  auto add = description.add_options();
  add("files", count_value(options.files, "files", 1, 10'000'000), "image files to write");
  add("classes", count_value(options.classes, "classes", 1, 100'000), "their sub-folders");
  add("side", count_value(options.side, "side", 1, 4096), "pixels of a side of an image");
  add("workers", count_value(options.workers, "workers", 0, 1024), "threads that load");
  add("batch", count_value(options.batch, "batch", 1, 1'000'000), "samples per batch");
  add("rounds", count_value(options.rounds, "rounds", 1, bench::kMostRounds),
      "epochs to measure in each way");
  add("directory",
      po::value(&options.directory)->value_name("DIR")->default_value(options.directory),
      "where to write the files; removed at the end");
  add("json", po::value(&options.json)->value_name("FILE"), "write a report to FILE");
  const bench::BenchmarkHelp help{
      .name = "loader_bench",
      .purpose = "Measures how fast a data loader reads small files and packed files.",
      .ranks = 1,
      .arguments = "--files 1000"};
  return bench::benchmark_main(
      argc, argv, help, description, [] {}, [&] { run(options); });
}
