#include "ops/train/bottleneck/report_html.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <vector>

#include "horo/base/error.h"
#include "horo/base/text/quantity.h"

namespace horo::ops {
namespace {

constexpr std::size_t kMostBars = 64;
constexpr double kBarWidth = 640, kBarHeight = 16, kBarSpace = 22, kLabelWidth = 70;
constexpr double kPlotWidth = 520, kPlotHeight = 220, kPlotMargin = 48;

/// A part of the time of a rank in the order in which a bar shows it.
struct Part {
  const char* name;
  const char* colour;
  StepPhase phase;
  bool is_straggler_wait = false;
};

constexpr std::array kParts{
    Part{"data wait", "#c0504d", StepPhase::kDataWait},
    Part{"transfer", "#8064a2", StepPhase::kTransfer},
    Part{"forward", "#6fa8dc", StepPhase::kForward},
    Part{"backward", "#2f6eb5", StepPhase::kBackward},
    Part{"exposed communication", "#e69138", StepPhase::kExposedCommunication},
    Part{"straggler wait", "#f6cf8d", StepPhase::kExposedCommunication, true},
    Part{"optimizer", "#6aa84f", StepPhase::kOptimizer},
    Part{"logging", "#999999", StepPhase::kLogging},
    Part{"checkpoint", "#444444", StepPhase::kCheckpoint}};

double milliseconds_of(const RankDiagnosis& rank, const Part& part) {
  return part.is_straggler_wait ? rank.straggler_wait_ms : rank.phases[part.phase];
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string bar_of(const RankCosts& costs, const RankDiagnosis& rank, double y, double scale) {
  std::string bar =
      fmt::format("<text x=\"0\" y=\"{:.1f}\">rank {}</text>\n", y + kBarHeight - 4, costs.rank);
  double x = kLabelWidth;
  for (const Part& part : kParts) {
    const double milliseconds = milliseconds_of(rank, part);
    if (milliseconds * scale < 0.05) continue;
    bar += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"><title>rank "
        "{}: "
        "{} {:.3g} ms</title></rect>\n",
        x, y, milliseconds * scale, kBarHeight, part.colour, costs.rank, part.name, milliseconds);
    x += milliseconds * scale;
  }
  return bar;
}

std::string bars(const JobBottlenecks& bottlenecks) {
  const auto& ranks = bottlenecks.diagnosis.ranks;
  const std::size_t count = std::min(ranks.size(), kMostBars);
  double longest = 1e-9;
  for (const RankDiagnosis& rank : ranks) longest = std::max(longest, rank.phases.total_ms);
  std::string svg = fmt::format(
      "<svg role=\"img\" aria-label=\"time of each rank by phase\" width=\"{}\" height=\"{}\">\n",
      kLabelWidth + kBarWidth + 10, static_cast<double>(count) * kBarSpace + 4);
  for (std::size_t rank = 0; rank < count; ++rank)
    svg += bar_of(bottlenecks.costs.ranks[rank], ranks[rank], static_cast<double>(rank) * kBarSpace,
                  kBarWidth / longest);
  return svg + "</svg>\n";
}

std::string legend() {
  std::string text = "<p class=\"legend\">";
  for (const Part& part : kParts)
    text += fmt::format("<span><i style=\"background:{}\"></i>{}</span> ", part.colour, part.name);
  return text + "</p>\n";
}

/// A curve over the numbers of ranks.
struct Curve {
  const char* name;
  const char* colour;
  std::vector<double> values;
};

std::string curve_svg(const Curve& curve, double most) {
  std::string points, marks;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    const double x = kPlotMargin + kPlotWidth * static_cast<double>(i) /
                                       static_cast<double>(curve.values.size() - 1);
    const double y = 10 + kPlotHeight * (1 - curve.values[i] / most);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{} {:.3g} "
        "ms</title></circle>\n",
        x, y, curve.colour, curve.name, curve.values[i]);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n{}",
                     points, curve.colour, marks);
}

std::string axes(const std::vector<int>& ranks, double most) {
  std::string svg;
  for (int line = 0; line <= 4; ++line) {
    const double y = 10 + kPlotHeight * (1 - line / 4.0);
    svg += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" "
        "stroke=\"#ddd\"/>\n<text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.3g}</text>\n",
        kPlotMargin, kPlotMargin + kPlotWidth, y, kPlotMargin - 6, y + 4, most * line / 4.0);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    svg += fmt::format(
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{} ranks</text>\n",
        kPlotMargin + kPlotWidth * static_cast<double>(i) / static_cast<double>(ranks.size() - 1),
        kPlotHeight + 28, ranks[i]);
  return svg;
}

std::string model_html(const JobBottlenecks& bottlenecks) {
  if (!bottlenecks.diagnosis.model)
    return fmt::format("<p>There is no model for more ranks: {}.</p>\n",
                       escaped(bottlenecks.diagnosis.no_model));
  const ScalingModel& model = *bottlenecks.diagnosis.model;
  std::vector<int> ranks{static_cast<int>(bottlenecks.costs.ranks.size())};
  std::array curves{Curve{"step", "#c0504d", {model.step_ms()}},
                    Curve{"communication", "#e69138", {model.communication_ms}},
                    Curve{"computation", "#2f6eb5", {model.compute_ms}}};
  for (const ScalingPrediction& one : model.predictions) {
    ranks.push_back(one.ranks);
    curves[0].values.push_back(one.step_ms);
    curves[1].values.push_back(one.communication_ms);
    curves[2].values.push_back(model.compute_ms);
  }
  double most = 1e-9;
  for (const Curve& curve : curves) most = std::max(most, *std::ranges::max_element(curve.values));
  std::string html = fmt::format(
      "<svg role=\"img\" aria-label=\"predicted step for more ranks\" width=\"{}\" "
      "height=\"{}\">\n{}",
      kPlotMargin + kPlotWidth + 40, kPlotHeight + 40, axes(ranks, most));
  for (const Curve& curve : curves) html += curve_svg(curve, most);
  html += "</svg>\n<p class=\"legend\">";
  for (const Curve& curve : curves)
    html += fmt::format("<span><i style=\"background:{}\"></i>{}, ms</span> ", curve.colour,
                        curve.name);
  html +=
      fmt::format("</p>\n<p>A step takes {} = {:.3g} ms. Each rank has as many samples as now.{}",
                  describe(model), model.step_ms(),
                  model.is_lower_bound
                      ? " The latency of the exchange is unknown; with it the steps of more ranks "
                        "are longer than shown."
                      : "");
  if (model.hiding_batch) html += " In this model, " + describe_hiding(model) + ".";
  return html + "</p>\n";
}

std::string recommendations(const Diagnosis& diagnosis) {
  std::string notes;
  for (const std::string& note : diagnosis.notes)
    notes += fmt::format("<p>{}.</p>\n", escaped(note));
  if (diagnosis.recommendations.empty()) return notes;
  std::string html = notes + "<ol>\n";
  for (const Recommendation& one : diagnosis.recommendations)
    html += fmt::format("<li><b>{}</b>: {}. <b>{}</b> would save about {:.2g} ms.</li>\n",
                        name_of(one.cause), escaped(one.evidence), escaped(one.remedy),
                        one.regained_ms);
  return html + "</ol>\n";
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

std::string device_cells(const std::optional<DeviceCosts>& device) {
  if (!device) return "<td></td><td></td><td></td><td></td>";
  const std::string memory = device->memory_used > 0
                                 ? fmt::format("{} of {}", format_bytes(device->memory_used),
                                               format_bytes(device->memory_total))
                                 : "";
  return fmt::format("<td>{:.0f} %</td><td>{}</td><td>{:.0f} %</td><td>{:.0f} %</td>",
                     100 * device->busy, memory, 100 * device->hot, 100 * device->power_limited);
}

std::string rows(const JobBottlenecks& bottlenecks) {
  std::string html;
  for (std::size_t rank = 0; rank < bottlenecks.diagnosis.ranks.size(); ++rank) {
    const RankCosts& costs = bottlenecks.costs.ranks[rank];
    const ProcessCosts& process = costs.process;
    html += fmt::format("<tr><td>{}</td><td>{}</td>", costs.rank, escaped(costs.host));
    for (const Part& part : kParts)
      html +=
          fmt::format("<td>{:.2f}</td>", milliseconds_of(bottlenecks.diagnosis.ranks[rank], part));
    html += fmt::format("<td>{:.0f} %</td><td>{:.0f} %</td><td>{:.0f} %</td><td>{}</td><td>{}</td>",
                        percent(process.cpu_seconds, process.seconds),
                        percent(process.waiting_seconds, process.seconds),
                        percent(process.suspended_seconds, process.seconds), process.major_faults,
                        process.involuntary_switches);
    html += fmt::format("<td>{:.1f}</td>{}</tr>\n", costs.memory_bandwidth / 1e9,
                        device_cells(costs.device));
  }
  return html;
}

std::string table_html(const JobBottlenecks& bottlenecks) {
  std::string html = "<table>\n<tr><th>rank</th><th>host</th>";
  for (const Part& part : kParts) html += fmt::format("<th>{}, ms</th>", part.name);
  html +=
      "<th>CPU</th><th>waited for a core</th><th>suspended</th><th>pages from disk</th>"
      "<th>switches</th><th>memory, GB/s</th><th>device busy</th>"
      "<th>device memory</th><th>clock lowered by heat</th><th>by power</th></tr>\n";
  return html + rows(bottlenecks) + "</table>\n";
}

std::string exchange_html(const JobBottlenecks& bottlenecks) {
  const auto& communication = bottlenecks.costs.communication;
  if (!communication) return "";
  const ExchangeCosts& exchange = communication->exchange;
  std::string html = fmt::format("<p>The {} of {} in {} takes {:.3g} ms without computation",
                                 bottlenecks.costs.is_sharded ? "reduce-scatter" : "exchange",
                                 format_bytes(static_cast<std::size_t>(exchange.bytes)),
                                 format_count(exchange.buckets, "bucket"), exchange.milliseconds);
  if (communication->gather_ms > 0)
    html += fmt::format(", the allgather {:.3g} ms", communication->gather_ms);
  if (communication->bandwidth > 0)
    html += fmt::format("; one buffer reaches {:.3g} GB/s, 8 bytes take {:.3g} ms",
                        communication->bandwidth / 1e9, communication->latency_ms);
  return html + ".</p>\n";
}

constexpr std::string_view kStyle =
    "body{font:14px/1.5 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222}"
    "svg text{font:12px sans-serif;fill:#222}table{border-collapse:collapse;font-size:12px}"
    "td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}"
    ".legend span{margin-right:1em;white-space:nowrap}"
    ".legend i{display:inline-block;width:12px;height:12px;margin-right:4px}"
    ".wide{overflow-x:auto}";

}  // namespace

std::string report_html(const JobBottlenecks& bottlenecks) {
  const Diagnosis& diagnosis = bottlenecks.diagnosis;
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Bottleneck "
      "report</title>\n<style>{}</style>\n</head>\n<body>\n<h1>Bottleneck report</h1>\n<p>{} "
      "ranks, "
      "global batch {}, {:.3g} ms per step over {}: <b>{}</b></p>\n{}<h2>Where the time of each "
      "rank went</h2>\n<div class=\"wide\">{}</div>\n{}<h2>More ranks</h2>\n{}{}<h2>Ranks</h2>\n"
      "<div class=\"wide\">{}</div>\n</body>\n</html>\n",
      kStyle, diagnosis.ranks.size(), bottlenecks.costs.global_batch, diagnosis.step_ms,
      format_count(diagnosis.steps, "step"), escaped(diagnosis.summary), recommendations(diagnosis),
      bars(bottlenecks), legend(), model_html(bottlenecks), exchange_html(bottlenecks),
      table_html(bottlenecks));
}

void write_html(const JobBottlenecks& bottlenecks, const std::filesystem::path& path) {
  std::ofstream file(path, std::ios::trunc);
  file << report_html(bottlenecks);
  file.close();
  if (!file) throw Error(fmt::format("{}: cannot be written", path.string()));
}

}  // namespace horo::ops
