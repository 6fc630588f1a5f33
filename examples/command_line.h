#pragma once

#include <boost/program_options.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Parses the command lines of the example programs. Adds -h and --help, and reports every mistake
// in one line with the option, its value and the valid range.

namespace horo::examples {

/// `text` as a whole number in [least, greatest]. Throws InvalidArgument that names `option`.
std::int64_t parse_count(const std::string& option, const std::string& text, std::int64_t least,
                         std::int64_t greatest);

/// `text` as a finite number for which `is_valid` holds. Throws InvalidArgument that names `option`
/// and `range`, such as "above 0". Number: float or double.
template <std::floating_point Number>
Number parse_number(const std::string& option, const std::string& text, const std::string& range,
                    const std::function<bool(Number)>& is_valid);

/// The value of an option: a whole number in [least, greatest]. `target` holds the default and
/// receives the value; it must outlive the option.
template <std::integral Count>
auto* count_value(Count& target, const std::string& option, std::int64_t least,
                  std::int64_t greatest) {
  return boost::program_options::value<std::string>()
      ->value_name("N")
      ->default_value(std::to_string(target))
      ->notifier([&target, option, least, greatest](const std::string& text) {
        target = static_cast<Count>(parse_count(option, text, least, greatest));
      });
}

/// The same for a number; `range` and `is_valid` as in parse_number().
template <std::floating_point Number>
boost::program_options::typed_value<std::string>* number_value(
    Number& target, const std::string& option, const std::string& range,
    const std::function<bool(Number)>& is_valid);

/// The same for one of `names`.
boost::program_options::typed_value<std::string>* name_value(std::string& target,
                                                             const std::string& option,
                                                             const std::vector<std::string>& names);

/// Adds -h and --help.
void add_help(boost::program_options::options_description& options);

/// Reads the command line into the targets of `options` and of -h and --help, which it adds.
/// Options cannot be abbreviated. Returns the values as they were given, or nothing for --help,
/// which leaves the targets unchanged. Throws InvalidArgument, one line, for an unknown option, a
/// missing value or a value out of range.
std::optional<boost::program_options::variables_map> parse_command_line(
    int argc, char** argv, boost::program_options::options_description& options);

/// A command that starts `program`, which is argv[0], on `ranks` ranks. It uses the hororun of the
/// same folder, which also works as root and with more ranks than cores.
std::string launch_line(const std::string& program, int ranks, const std::string& arguments);

/// "1 rank", "2 ranks": `noun` with an "s" unless `count` is 1.
std::string counted(std::int64_t count, const std::string& noun);

}  // namespace horo::examples
