#include "horo/metrics/metrics_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "horo/base/text/printable.h"

namespace horo::metrics {

namespace {

std::string escape(std::string_view text, bool is_quoted) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '\\' || (c == '"' && is_quoted))
      escaped += {'\\', c};
    else
      escaped += c;
  }
  return escaped;
}

}  // namespace

std::string escape_label(std::string_view value) { return escape(value, true); }

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// The first call of add() writes the heading, so a family without samples has no heading.
void PrometheusText::begin(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  heading_ = fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escape(help, false), name,
                         type == Type::kCounter ? "counter" : "gauge");
}

void PrometheusText::add(const Labels& labels, double value) {
  text_ += heading_;
  heading_.clear();
  text_ += name_;
  std::string_view separator = "{";
  for (const auto& [label, content] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", separator, label, escape_label(content));
    separator = ",";
  }
  text_ += fmt::format("{} {}\n", labels.empty() ? "" : "}", prometheus_number(value));
}

namespace {

using enum PrometheusText::Type;

constexpr std::size_t kMostStragglers = 3;
constexpr double kWorthNaming = 0.01;

// Writes the families of a page. The format requires that all samples of a family are consecutive.
class PageWriter {
 public:
  explicit PageWriter(const MetricsSnapshot& snapshot) : snapshot_(snapshot) {}

  std::string write() {
    write_rank();
    write_plans();
    write_phases();
    write_ranks();
    write_skews();
    write_stragglers();
    return text_.text();
  }

 private:
  Labels own_labels() const {
    return {{"rank", fmt::to_string(snapshot_.rank.rank)}, {"host", snapshot_.rank.host}};
  }
  // The labels of a sample that describes `rank`, which need not be the rank of the page.
  static Labels labels_of(const RankComparison& rank) {
    return {{"rank", fmt::to_string(rank.rank)}, {"host", rank.host}};
  }
  static void add_plan(Labels& labels, const std::string& name, const std::string& process_set) {
    labels.emplace_back("plan", name);
    if (!process_set.empty()) labels.emplace_back("process_set", process_set);
  }
  static Labels with(Labels labels, std::string_view name, const std::string& value) {
    labels.emplace_back(name, value);
    return labels;
  }

  void add_one(std::string_view name, PrometheusText::Type type, std::string_view help,
               double value) {
    text_.begin(name, type, help);
    text_.add(own_labels(), value);
  }

  void write_rank() {
    const RankMeter::Snapshot& meter = snapshot_.meter;
    add_one("horo_running", kGauge, "1 until the rank leaves the job or fails, then 0.",
            snapshot_.is_running ? 1 : 0);
    add_one("horo_job_ranks", kGauge, "Ranks of the job.", snapshot_.size);
    add_one("horo_written_timestamp_seconds", kGauge, "When this page was written.",
            seconds_of(snapshot_.written));
    add_one("horo_own_seconds_total", kCounter,
            "Time in the job in which no thread of the program waited inside horo.",
            seconds_of(meter.own));
    add_one("horo_blocked_seconds_total", kCounter,
            "Time in which a thread of the program waited inside horo.", seconds_of(meter.blocked));
    add_one("horo_operations_total", kCounter, "Named operations that have finished.",
            static_cast<double>(snapshot_.operations));
    add_one("horo_since_progress_seconds", kGauge,
            "Time since a bucket or a named operation last finished.",
            seconds_of(snapshot_.since_progress));
    add_one("horo_paused", kGauge, "1 while the rank is in a Context::pause(), else 0.",
            snapshot_.is_paused ? 1 : 0);
    add_one("horo_lost_lines_total", kCounter,
            "Steps whose line could not be written to the rank's file.",
            static_cast<double>(snapshot_.lost_lines));
  }

  void add_plans(std::string_view name, PrometheusText::Type type, std::string_view help,
                 const std::function<double(const StepSums&)>& value) {
    text_.begin(name, type, help);
    for (const RankMeter::Plan& plan : snapshot_.meter.plans) {
      Labels labels = own_labels();
      add_plan(labels, plan.label.name, plan.label.process_set);
      text_.add(labels, value(plan.sums));
    }
  }

  void write_plans() {
    add_plans("horo_steps_total", kCounter, "Complete steps of a GradientSync.",
              [](const StepSums& sums) { return static_cast<double>(sums.steps); });
    add_plans("horo_step_seconds_total", kCounter,
              "Length of the steps, from the end of one to the end of the next.",
              [](const StepSums& sums) { return seconds_of(sums.length); });
    add_plans("horo_step_own_seconds_total", kCounter,
              "Time within the steps in which the program did not wait in horo.",
              [](const StepSums& sums) { return seconds_of(sums.length - sums.blocked); });
    add_plans("horo_step_exposed_seconds_total", kCounter,
              "Time within the steps that was spent in wait(), exchange() or join().",
              [](const StepSums& sums) { return seconds_of(sums.exposed); });
    add_plans("horo_exchange_seconds_total", kCounter,
              "Time in which buckets were exchanged, overlapped with the program or exposed.",
              [](const StepSums& sums) { return seconds_of(sums.exchange); });
    add_plans("horo_exchanged_bytes_total", kCounter, "Bytes of the gradients exchanged.",
              [](const StepSums& sums) { return static_cast<double>(sums.bytes); });
    text_.begin("horo_wire_bytes_total", kCounter,
                "Bytes sent to other ranks, where gradients are compressed or narrowed.");
    for (const RankMeter::Plan& plan : snapshot_.meter.plans) {
      if (!plan.sums.wire_bytes) continue;
      Labels labels = own_labels();
      add_plan(labels, plan.label.name, plan.label.process_set);
      text_.add(labels, static_cast<double>(*plan.sums.wire_bytes));
    }
  }

  void write_phases() {
    text_.begin(
        "horo_phase_seconds_total", kCounter,
        "Time in each phase or pause of the program. Nested time counts for the innermost.");
    for (std::size_t i = 0; i < snapshot_.meter.phase_names.size(); ++i)
      text_.add(with(own_labels(), "phase", snapshot_.meter.phase_names[i]),
                seconds_of(snapshot_.meter.phases[i]));
  }

  void add_ranks(std::string_view name, std::string_view help,
                 const std::function<double(const RankComparison&)>& value) {
    text_.begin(name, kCounter, help);
    for (const RankComparison& rank : snapshot_.ranks) text_.add(labels_of(rank), value(rank));
  }

  void write_ranks() {
    add_ranks("horo_rank_own_seconds_total",
              "horo_own_seconds_total of each rank, as last reported to rank 0.",
              [](const RankComparison& rank) { return seconds_of(rank.own); });
    add_ranks("horo_rank_blocked_seconds_total",
              "horo_blocked_seconds_total of each rank, as last reported to rank 0.",
              [](const RankComparison& rank) { return seconds_of(rank.blocked); });
    text_.begin("horo_rank_phase_seconds_total", kCounter,
                "horo_phase_seconds_total of each rank, as last reported to rank 0.");
    for (const RankComparison& rank : snapshot_.ranks)
      for (const auto& phase : rank.phases)
        text_.add(with(labels_of(rank), "phase", phase.name), seconds_of(phase.time));
    add_ranks("horo_rank_last_steps_total", "Compared steps in which the rank arrived last.",
              [](const RankComparison& rank) { return static_cast<double>(rank.last); });
    add_ranks("horo_rank_delay_seconds_total",
              "Time from the second to last arrival to the rank's own, in steps in which the rank "
              "arrived last.",
              [](const RankComparison& rank) { return seconds_of(rank.delayed); });
  }

  void add_skews(std::string_view name, PrometheusText::Type type, std::string_view help,
                 const std::function<double(const PlanSkew&)>& value) {
    text_.begin(name, type, help);
    for (const PlanSkew& skew : snapshot_.skews) {
      const auto known = std::ranges::find(snapshot_.ranks, skew.rank, &RankComparison::rank);
      Labels labels = {{"rank", fmt::to_string(skew.rank)},
                       {"host", known == snapshot_.ranks.end() ? "" : known->host}};
      add_plan(labels, skew.plan, skew.process_set);
      text_.add(labels, value(skew));
    }
  }

  void write_skews() {
    add_skews(
        "horo_rank_arrival_skew_seconds", kGauge,
        "How much later than the earliest rank a rank arrived, mean over the steps of the latest "
        "interval.",
        [](const PlanSkew& skew) { return seconds_of(skew.latest_mean); });
    add_skews("horo_rank_arrival_skew_seconds_total", kCounter,
              "horo_rank_arrival_skew_seconds, summed over the compared steps.",
              [](const PlanSkew& skew) { return seconds_of(skew.total); });
    add_skews("horo_rank_compared_steps_total", kCounter, "Number of compared steps.",
              [](const PlanSkew& skew) { return static_cast<double>(skew.steps); });
  }

  void write_stragglers() {
    text_.begin("horo_straggler_delay_seconds", kGauge,
                "Delay caused by the ranks that delayed the others most, with the phase in which "
                "they exceed the median of all ranks most.");
    for (const RankComparison& rank : find_stragglers(snapshot_.ranks))
      text_.add(with(labels_of(rank), "phase", rank.phase), seconds_of(rank.delayed));
  }

  const MetricsSnapshot& snapshot_;
  PrometheusText text_;
};

}  // namespace

// The limits of three ranks and of 1 % of the time keep the number of time series in the family
// small.
std::vector<RankComparison> find_stragglers(std::vector<RankComparison> ranks) {
  std::erase_if(ranks, [](const RankComparison& rank) {
    const auto present = static_cast<double>(rank.own + rank.blocked);
    return rank.delayed <= 0 || static_cast<double>(rank.delayed) < kWorthNaming * present;
  });
  std::ranges::stable_sort(ranks, std::greater<>(), &RankComparison::delayed);
  ranks.resize(std::min(ranks.size(), kMostStragglers));
  return ranks;
}

std::string metrics_page(const MetricsSnapshot& snapshot) { return PageWriter(snapshot).write(); }

}  // namespace horo::metrics
