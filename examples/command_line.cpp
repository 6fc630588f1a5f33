#include "examples/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "horo/base/error.h"

namespace horo::examples {
namespace {

namespace po = boost::program_options;

// Returns whether all of `text` is a number. Numbers are parsed from text here, because boost's own
// conversion wraps "-1" around for unsigned types and its errors do not name the valid range.
template <typename Number>
bool read_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

/// "a", "a or b", "a, b or c"
std::string choice_of(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

}  // namespace

std::int64_t parse_count(const std::string& option, const std::string& text, std::int64_t least,
                         std::int64_t greatest) {
  std::int64_t count = 0;
  HORO_CHECK(read_number(text, count) && count >= least && count <= greatest,
             fmt::format("--{} {}: the value must be a whole number from {} to {}", option, text,
                         least, greatest));
  return count;
}

template <std::floating_point Number>
Number parse_number(const std::string& option, const std::string& text, const std::string& range,
                    const std::function<bool(Number)>& is_valid) {
  Number number = 0;
  HORO_CHECK(read_number(text, number) && std::isfinite(number) && is_valid(number),
             fmt::format("--{} {}: the value must be a number {}", option, text, range));
  return number;
}
template float parse_number(const std::string&, const std::string&, const std::string&,
                            const std::function<bool(float)>&);
template double parse_number(const std::string&, const std::string&, const std::string&,
                             const std::function<bool(double)>&);

template <std::floating_point Number>
po::typed_value<std::string>* number_value(Number& target, const std::string& option,
                                           const std::string& range,
                                           const std::function<bool(Number)>& is_valid) {
  return po::value<std::string>()
      ->value_name("X")
      ->default_value(fmt::format("{}", target))
      ->notifier([&target, option, range, is_valid](const std::string& text) {
        target = parse_number<Number>(option, text, range, is_valid);
      });
}
template po::typed_value<std::string>* number_value(float&, const std::string&, const std::string&,
                                                    const std::function<bool(float)>&);
template po::typed_value<std::string>* number_value(double&, const std::string&, const std::string&,
                                                    const std::function<bool(double)>&);

po::typed_value<std::string>* name_value(std::string& target, const std::string& option,
                                         const std::vector<std::string>& names) {
  const auto store = [&target, option, names](const std::string& name) {
    HORO_CHECK(std::ranges::find(names, name) != names.end(),
               fmt::format("--{} {}: choose {}", option, name, choice_of(names)));
    target = name;
  };
  return po::value<std::string>()->value_name("NAME")->default_value(target)->notifier(store);
}

void add_help(po::options_description& options) {
  options.add_options()("help,h", "show this text");
}

std::optional<po::variables_map> parse_command_line(int argc, char** argv,
                                                    po::options_description& options) {
  add_help(options);
  po::variables_map values;
  try {
    po::store(
        po::command_line_parser(argc, argv)
            .options(options)
            .positional({})
            .style(po::command_line_style::unix_style & ~po::command_line_style::allow_guessing)
            .run(),
        values);
    if (values.count("help") != 0) return std::nullopt;
    po::notify(values);
  } catch (const po::error& error) {
    throw InvalidArgument(fmt::format("{}; --help lists the options", error.what()));
  }
  return values;
}

std::string launch_line(const std::string& program, int ranks, const std::string& arguments) {
  const std::filesystem::path launcher = std::filesystem::path(program).parent_path() / "hororun";
  return fmt::format("{} -n {} {} {}", launcher.string(), ranks, program, arguments);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace horo::examples
