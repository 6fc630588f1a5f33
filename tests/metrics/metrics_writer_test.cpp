#include "horo/metrics/metrics_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>

#include "horo/base/system/file_descriptor.h"
#include "tests/flight_recorder/temporary_directory.h"

namespace horo::metrics {
namespace {

// The writer thread blocks when it opens a pipe without a reader, as on a file system that hangs.
TEST(MetricsWriter, FlushReturnsDespiteHangingFileSystem) {
  const observe::TemporaryDirectory directory;
  MetricsFiles files(directory.path(), 0);
  const std::string page = directory.file("rank.0.prom.new");
  ASSERT_EQ(mkfifo(page.c_str(), 0600), 0);
  const observe::FlightRecorder recorder({});
  auto writer = std::make_unique<MetricsWriter>(
      RankLabel{1, 0, "h"}, 1, std::make_shared<RankMeter>(), recorder, std::move(files));
  writer->flush(std::chrono::milliseconds(10));
  const FileDescriptor reader(open(page.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_GE(reader.get(), 0);
  writer->flush(std::chrono::minutes(1));
}

}  // namespace
}  // namespace horo::metrics
