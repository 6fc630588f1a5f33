#include "ops/data/records/pack_folder.h"

#include <vector>

#include "horo/base/error.h"
#include "horo/base/text/log.h"
#include "ops/data/records/labelled_files.h"
#include "ops/data/records/read_file.h"
#include "ops/data/records/record_reader.h"
#include "ops/data/records/record_writer.h"

namespace horo::ops {

PackReport pack_folder(const std::filesystem::path& source, const std::filesystem::path& target,
                       std::uint64_t file_bytes) {
  const LabelledFiles files = list_labelled_files(source);
  RecordWriter writer(target, files.classes, file_bytes);
  PackReport report{.records = files.files.size(), .classes = files.classes.size()};
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    read_file(files.path_of(i), bytes);
    writer.add(files.files[i].name, files.files[i].label, bytes);
    report.bytes += bytes.size();
  }
  writer.finish();
  return report;
}

PackReport check_records(const std::filesystem::path& directory) {
  const RecordReader reader(directory);
  PackReport report{.records = reader.size(), .classes = reader.classes().size()};
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < reader.size(); ++i) {
    try {
      reader.read(i, bytes);
      report.bytes += bytes.size();
    } catch (const Error& error) {
      ++report.damaged;
      log_error("{}", error.what());
    }
  }
  return report;
}

}  // namespace horo::ops
