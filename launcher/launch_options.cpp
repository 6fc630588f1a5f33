#include "launcher/launch_options.h"

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cctype>
#include <charconv>
#include <sstream>

#include "horo/base/environment.h"
#include "horo/base/error.h"
#include "horo/base/text/quantity.h"
#include "launcher/mpirun_command.h"

namespace horo {
namespace {

namespace po = boost::program_options;

po::options_description option_table() {
  po::options_description table("Options", 100, 50);
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  table.add_options()("np,n", text("N"),
                      "number of ranks (-np N works too); default: the slots of the hosts")(
      "host,H", text("HOST:SLOTS,..."), "hosts of the ranks; default: this machine")(
      "hostfile", text("FILE"), "file with the hosts, one \"HOST slots=N\" per line")(
      "output-dir", text("DIR"), "also write each rank's output to DIR/rank.N/{stdout,stderr}")(
      "env", po::value<std::vector<std::string>>()->value_name("NAME=VALUE")->composing(),
      "set an environment variable for every rank; may be repeated")(
      "oversubscribe", "allow more ranks than the hosts have slots")(
      "mpi-args", po::value<std::vector<std::string>>()->value_name("\"ARGS\"")->composing(),
      "further arguments for mpirun, after those of hororun")(
      "grace-time", text("TIME"),
      "time for the ranks to end after SIGTERM to hororun; default: 30s")(
      "dry-run", "print the mpirun command without running it")("help,h", "print this help");
  return table;
}

/// Returns the option whose whole name is `word`, such as "--np" or "-n". "-np" is accepted as in
/// Open MPI. Returns null if there is no such option.
const po::option_description* find_option(const po::options_description& table,
                                          const std::string& word) {
  const std::string name = word == "-np" ? "--np" : word;
  const int style = name.starts_with("--") ? po::command_line_style::allow_long
                                           : po::command_line_style::allow_dash_for_short;
  for (const auto& option : table.options())
    if (option->canonical_display_name(style) == name) return option.get();
  return nullptr;
}

/// The leading words, which belong to hororun. Each option and its value are joined to one word.
/// Otherwise Boost would read "-np" as "-n p" and reject values that begin with a dash.
struct OwnWords {
  std::vector<std::string> words;
  std::size_t count = 0;  ///< the number of original words
};

OwnWords own_words(const po::options_description& table, std::span<const std::string> words) {
  OwnWords own;
  while (own.count < words.size()) {
    const std::string& word = words[own.count];
    if (!word.starts_with('-') || word == "-" || word == "--") break;
    ++own.count;
    const auto* option = find_option(table, word);
    if (option == nullptr || option->semantic()->max_tokens() == 0) {
      own.words.push_back(word.starts_with("-np=") ? "-" + word : word);
      continue;
    }
    if (own.count == words.size() || words[own.count].empty())
      throw InvalidArgument(
          fmt::format("{} needs a value: {} {}", word, word, option->format_parameter()));
    own.words.push_back(fmt::format("--{}={}", option->long_name(), words[own.count]));
    ++own.count;
  }
  return own;
}

[[noreturn]] void throw_unknown_option(const po::options_description& table,
                                       const std::string& name) {
  std::vector<std::string> long_names;
  for (const auto& option : table.options()) long_names.push_back("--" + option->long_name());
  const std::vector<std::string_view> candidates(long_names.begin(), long_names.end());
  const auto near = nearest_match(name, candidates);
  throw InvalidArgument(fmt::format(
      "unknown option {}{}", name,
      near ? fmt::format("; did you mean {}?", *near)
           : std::string(
                 "; hororun --help lists them; write options of the program after its name")));
}

po::variables_map parse_own_words(const po::options_description& table,
                                  const std::vector<std::string>& own) {
  try {
    po::variables_map values;
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(own).options(table).style(style).run(), values);
    return values;
  } catch (const po::unknown_option& error) {
    throw_unknown_option(table, error.get_option_name());
  } catch (const po::multiple_occurrences& error) {
    throw InvalidArgument(fmt::format("{} is given twice; give it once", error.get_option_name()));
  } catch (const po::error& error) {
    throw InvalidArgument(fmt::format("{}; hororun --help lists the options", error.what()));
  }
}

int parse_ranks(const std::string& text) {
  int value = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || rest != text.data() + text.size() || value < 1 || value > kMaxRanks)
    throw InvalidArgument(fmt::format(
        "-np {}: the number of ranks must be a whole number from 1 to {}", text, kMaxRanks));
  return value;
}

std::pair<std::string, std::string> parse_assignment(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  bool is_name = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  for (char c : name)
    is_name = is_name && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_');
  if (!is_name || equals == std::string::npos)
    throw InvalidArgument(
        fmt::format("--env {}: write NAME=VALUE, such as --env HORO_LOG_LEVEL=info", text));
  return {name, text.substr(equals + 1)};
}

void append_mpi_arguments(const std::string& text, std::vector<std::string>& arguments) {
  try {
    for (std::string& word : split_words(text)) arguments.push_back(std::move(word));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--mpi-args: {}", error.what()));
  }
}

std::chrono::milliseconds parse_time(const std::string& text) {
  try {
    return std::chrono::ceil<std::chrono::milliseconds>(parse_duration(text));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--grace-time: {}", error.what()));
  }
}

std::optional<std::string> text_of(const po::variables_map& values, const char* name) {
  if (values.count(name) == 0) return std::nullopt;
  return values[name].as<std::string>();
}

std::vector<std::string> texts_of(const po::variables_map& values, const char* name) {
  return values.count(name) == 0 ? std::vector<std::string>{}
                                 : values[name].as<std::vector<std::string>>();
}

}  // namespace

LaunchOptions parse_launch_options(std::span<const std::string> words) {
  const po::options_description table = option_table();
  const OwnWords own = own_words(table, words);
  const po::variables_map values = parse_own_words(table, own.words);

  LaunchOptions options;
  options.help = values.count("help") > 0;
  options.dry_run = values.count("dry-run") > 0;
  options.oversubscribe = values.count("oversubscribe") > 0;
  if (const auto ranks = text_of(values, "np")) options.ranks = parse_ranks(*ranks);
  options.hosts = text_of(values, "host");
  options.hostfile = text_of(values, "hostfile");
  options.output_directory = text_of(values, "output-dir");
  for (const std::string& text : texts_of(values, "env"))
    options.environment.push_back(parse_assignment(text));
  if (const auto time = text_of(values, "grace-time")) options.grace_time = parse_time(*time);
  for (const std::string& text : texts_of(values, "mpi-args"))
    append_mpi_arguments(text, options.mpi_arguments);

  std::size_t program = own.count;
  if (program < words.size() && words[program] == "--") ++program;
  options.program.assign(words.begin() + static_cast<std::ptrdiff_t>(program), words.end());
  if (options.help) return options;
  if (options.output_directory && options.output_directory->find(':') != std::string::npos)
    throw InvalidArgument(
        fmt::format("--output-dir {}: mpirun does not accept ':' in this path; choose another name",
                    *options.output_directory));
  if (options.hosts && options.hostfile)
    throw InvalidArgument("-H and --hostfile are both given; give one of them");
  if (options.program.empty() || options.program[0].empty())
    throw InvalidArgument("no program is given; usage: hororun -np N PROGRAM [ARGS...]");
  return options;
}

std::string launch_help() {
  std::ostringstream text;
  text
      << "Starts a program on several ranks with Open MPI's mpirun. If a rank fails, ends all "
         "ranks.\n\n"
         "  hororun -np 4 PROGRAM [ARGS...]              4 ranks on this machine\n"
         "  hororun -H node1:4,node2:4 PROGRAM [ARGS...] 8 ranks on two hosts\n"
         "  hororun settings [--markdown]                print the HORO_ settings\n"
         "  hororun doctor [DIR]                         print why a job hangs, or why it ended\n"
         "  hororun timeline [DIR] [-o FILE]             write a trace of the operations of a job\n"
         "  hororun stragglers [DIR]                     print which ranks the others waited for\n"
         "  hororun pack SOURCE TARGET                   pack many small files into few large "
         "ones\n\n"
      << option_table()
      << "\nWrite options before PROGRAM. All ranks get every HORO_ variable and OMP_NUM_THREADS. "
         "The "
         "exit code is\n"
         "that of the first rank that failed, 128 + n for signal n, and 2 for an invalid "
         "command line.\n";
  return text.str();
}

}  // namespace horo
