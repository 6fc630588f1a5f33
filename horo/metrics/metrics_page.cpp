#include "horo/metrics/metrics_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "horo/metrics/prometheus_text.h"

namespace horo::metrics {
namespace {

using enum PrometheusText::Type;

constexpr std::size_t kMostStragglers = 3;
constexpr double kWorthNaming = 0.01;

class Page {
 public:
  explicit Page(const MetricsPicture& picture) : picture_(picture) {}

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
    return {{"rank", fmt::to_string(picture_.rank.rank)}, {"host", picture_.rank.host}};
  }
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
    const RankMeter::Picture& meter = picture_.meter;
    add_one("horo_running", kGauge, "1 until the rank leaves the job or fails, then 0.",
            picture_.is_running ? 1 : 0);
    add_one("horo_job_ranks", kGauge, "Ranks of the job.", picture_.size);
    add_one("horo_written_timestamp_seconds", kGauge, "When this page was written.",
            seconds_of(picture_.written));
    add_one("horo_own_seconds_total", kCounter,
            "Time in the job in which no thread of the program waited inside horo.",
            seconds_of(meter.own));
    add_one("horo_blocked_seconds_total", kCounter,
            "Time in which a thread of the program waited inside horo.", seconds_of(meter.blocked));
    add_one("horo_operations_total", kCounter, "Named operations that have finished.",
            static_cast<double>(picture_.operations));
    add_one("horo_since_progress_seconds", kGauge,
            "Time since a bucket or a named operation last finished.",
            seconds_of(picture_.since_progress));
    add_one("horo_paused", kGauge, "1 while the rank is in a Context::pause(), else 0.",
            picture_.is_paused ? 1 : 0);
    add_one("horo_lost_lines_total", kCounter,
            "Steps that have no line in the rank's file because there was no room for them.",
            static_cast<double>(picture_.lost_lines));
  }

  void add_plans(std::string_view name, PrometheusText::Type type, std::string_view help,
                 const std::function<double(const StepSums&)>& value) {
    text_.begin(name, type, help);
    for (const RankMeter::Plan& plan : picture_.meter.plans) {
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
              "Of the steps' length, what the rank computed.",
              [](const StepSums& sums) { return seconds_of(sums.length - sums.blocked); });
    add_plans("horo_step_exposed_seconds_total", kCounter,
              "Of the steps' length, what the rank waited in wait(), exchange() or join().",
              [](const StepSums& sums) { return seconds_of(sums.exposed); });
    add_plans("horo_exchange_seconds_total", kCounter,
              "Time in which buckets were exchanged, beside the program or exposed.",
              [](const StepSums& sums) { return seconds_of(sums.exchange); });
    add_plans("horo_exchanged_bytes_total", kCounter, "Bytes of the gradients exchanged.",
              [](const StepSums& sums) { return static_cast<double>(sums.bytes); });
    text_.begin("horo_wire_bytes_total", kCounter,
                "Bytes sent to other ranks, where gradients are compressed or narrowed.");
    for (const RankMeter::Plan& plan : picture_.meter.plans) {
      if (!plan.sums.wire_bytes) continue;
      Labels labels = own_labels();
      add_plan(labels, plan.label.name, plan.label.process_set);
      text_.add(labels, static_cast<double>(*plan.sums.wire_bytes));
    }
  }

  void write_phases() {
    text_.begin("horo_phase_seconds_total", kCounter,
                "Time in each phase or pause of the program, the innermost where they nest.");
    for (std::size_t i = 0; i < picture_.meter.phase_names.size(); ++i)
      text_.add(with(own_labels(), "phase", picture_.meter.phase_names[i]),
                seconds_of(picture_.meter.phases[i]));
  }

  void add_ranks(std::string_view name, std::string_view help,
                 const std::function<double(const RankComparison&)>& value) {
    text_.begin(name, kCounter, help);
    for (const RankComparison& rank : picture_.ranks) text_.add(labels_of(rank), value(rank));
  }

  void write_ranks() {
    add_ranks("horo_rank_own_seconds_total",
              "horo_own_seconds_total of each rank, as rank 0 knows it.",
              [](const RankComparison& rank) { return seconds_of(rank.own); });
    add_ranks("horo_rank_blocked_seconds_total",
              "horo_blocked_seconds_total of each rank, as rank 0 knows it.",
              [](const RankComparison& rank) { return seconds_of(rank.blocked); });
    text_.begin("horo_rank_phase_seconds_total", kCounter,
                "horo_phase_seconds_total of each rank, as rank 0 knows it.");
    for (const RankComparison& rank : picture_.ranks)
      for (const auto& phase : rank.phases)
        text_.add(with(labels_of(rank), "phase", phase.name), seconds_of(phase.time));
    add_ranks("horo_rank_last_steps_total", "Compared steps to which the rank came last.",
              [](const RankComparison& rank) { return static_cast<double>(rank.last); });
    add_ranks("horo_rank_delay_seconds_total",
              "How long after the second to last rank it came to those steps.",
              [](const RankComparison& rank) { return seconds_of(rank.delayed); });
  }

  void add_skews(std::string_view name, PrometheusText::Type type, std::string_view help,
                 const std::function<double(const PlanSkew&)>& value) {
    text_.begin(name, type, help);
    for (const PlanSkew& skew : picture_.skews) {
      const auto known = std::ranges::find(picture_.ranks, skew.rank, &RankComparison::rank);
      Labels labels = {{"rank", fmt::to_string(skew.rank)},
                       {"host", known == picture_.ranks.end() ? "" : known->host}};
      add_plan(labels, skew.plan, skew.process_set);
      text_.add(labels, value(skew));
    }
  }

  void write_skews() {
    add_skews("horo_rank_arrival_skew_seconds", kGauge,
              "How much later than the earliest rank a rank came to a step, the mean of the latest "
              "interval.",
              [](const PlanSkew& skew) { return seconds_of(skew.latest_mean); });
    add_skews("horo_rank_arrival_skew_seconds_total", kCounter, "The same, summed up over steps.",
              [](const PlanSkew& skew) { return seconds_of(skew.total); });
    add_skews("horo_rank_compared_steps_total", kCounter, "The steps summed up.",
              [](const PlanSkew& skew) { return static_cast<double>(skew.steps); });
  }

  void write_stragglers() {
    text_.begin("horo_straggler_delay_seconds", kGauge,
                "The ranks that the others have waited for most, how long, and the phase in which "
                "they are longer than others.");
    for (const RankComparison& rank : find_stragglers(picture_.ranks))
      text_.add(with(labels_of(rank), "phase", rank.phase), seconds_of(rank.delayed));
  }

  const MetricsPicture& picture_;
  PrometheusText text_;
};

}  // namespace

std::vector<RankComparison> find_stragglers(std::vector<RankComparison> ranks) {
  std::erase_if(ranks, [](const RankComparison& rank) {
    const auto present = static_cast<double>(rank.own + rank.blocked);
    return rank.delayed <= 0 || static_cast<double>(rank.delayed) < kWorthNaming * present;
  });
  std::ranges::stable_sort(ranks, std::greater<>(), &RankComparison::delayed);
  ranks.resize(std::min(ranks.size(), kMostStragglers));
  return ranks;
}

std::string metrics_page(const MetricsPicture& picture) { return Page(picture).write(); }

}  // namespace horo::metrics
