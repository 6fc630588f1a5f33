#include "launcher/program_search.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "horo/base/error.h"

namespace horo {
namespace {

namespace fs = std::filesystem;

bool is_executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string first_bytes_of(const fs::path& path, std::size_t count) {
  std::string bytes(count, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

bool kernel_knows_more_formats() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/sys/fs/binfmt_misc", ignored))
    if (entry.path().filename() != "register" && entry.path().filename() != "status") return true;
  return false;
}

/// Returns the processor of an ELF file, such as EM_X86_64. Returns nullopt if `bytes` are not the
/// beginning of an ELF file.
std::optional<int> elf_machine(std::string_view bytes) {
  constexpr std::size_t kOffset = offsetof(Elf64_Ehdr, e_machine);  // the same in Elf32_Ehdr
  if (bytes.size() < kOffset + 2 || bytes.substr(0, SELFMAG) != ELFMAG) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const bool is_little = byte(EI_DATA) == ELFDATA2LSB;
  return is_little ? byte(kOffset) | byte(kOffset + 1) << 8
                   : byte(kOffset + 1) | byte(kOffset) << 8;
}

std::string name_machine(int machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_386:
      return "x86 (32 bits)";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    default:
      return fmt::format("processor {} of the ELF format", machine);
  }
}

void check_script(const std::string& path, std::string_view bytes) {
  const std::size_t begin = std::min(bytes.find_first_not_of(" \t", 2), bytes.size());
  const std::size_t end = std::min(bytes.find_first_of(" \t\r\n", begin), bytes.size());
  const std::string interpreter(bytes.substr(begin, end - begin));
  const bool has_carriage_return = end < bytes.size() && bytes[end] == '\r';
  if (has_carriage_return)
    throw InvalidArgument(fmt::format(
        "program '{}' is a script whose lines end with a carriage return; dos2unix removes it",
        path));
  if (end < bytes.size() && !is_executable_file(interpreter))
    throw InvalidArgument(
        fmt::format("program '{}' is a script for the interpreter '{}', which is not an "
                    "executable file; correct its first line",
                    path, interpreter));
}

}  // namespace

std::optional<std::string> find_on_path(const std::string& name, std::string_view path) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t colon = std::min(path.find(':', begin), path.size());
    const fs::path candidate = fs::path(path.substr(begin, colon - begin)) / name;
    if (is_executable_file(candidate)) return candidate.string();
    begin = colon + 1;
  }
  return std::nullopt;
}

std::string find_program(const std::string& program, std::string_view path) {
  std::error_code ignored;
  if (program.find('/') != std::string::npos) {
    if (is_executable_file(program)) return program;
    if (!fs::exists(program, ignored))
      throw InvalidArgument(
          fmt::format("program '{}' does not exist; has it been built?", program));
    if (fs::is_directory(program, ignored))
      throw InvalidArgument(
          fmt::format("program '{}' is a directory; name the program in it", program));
    throw InvalidArgument(
        fmt::format("program '{}' is not executable; chmod +x makes it so", program));
  }
  if (const auto found = find_on_path(program, path)) return *found;
  if (is_executable_file(program))
    throw InvalidArgument(fmt::format(
        "program '{0}' is not on PATH; for the one in this directory write ./{0}", program));
  throw InvalidArgument(fmt::format("program '{}' is not on PATH; write its path", program));
}

// Finds errors for which exec() would fail on every rank, so that the error appears once.
void check_program_format(const std::string& path) {
  constexpr std::size_t kHeaderBytes = 256;  // the part of a script that the kernel reads
  if (access(path.c_str(), R_OK) != 0 || kernel_knows_more_formats()) return;
  const std::string bytes = first_bytes_of(path, kHeaderBytes);
  if (bytes.starts_with("#!")) return check_script(path, bytes);
  const auto machine = elf_machine(bytes);
  if (!machine)
    throw InvalidArgument(
        fmt::format("program '{}' is {}; a script begins with a line such as #!/bin/sh", path,
                    bytes.empty() ? "an empty file" : "neither a compiled program nor a script"));
  const auto here = elf_machine(first_bytes_of("/proc/self/exe", kHeaderBytes));
  const bool is_older_x86 = here == EM_X86_64 && *machine == EM_386;
  if (here && machine != here && !is_older_x86)
    throw InvalidArgument(fmt::format("program '{}' is built for {}, but this machine is {}", path,
                                      name_machine(*machine), name_machine(*here)));
}

}  // namespace horo
