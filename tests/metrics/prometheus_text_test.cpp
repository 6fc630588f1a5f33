#include <gtest/gtest.h>

#include <limits>

#include "horo/metrics/metrics_page.h"

namespace horo::metrics {
namespace {

using enum PrometheusText::Type;

TEST(PrometheusText, WritesOneHeadingPerFamily) {
  PrometheusText text;
  text.begin("steps_total", kCounter, "Complete steps.");
  text.add({{"rank", "0"}, {"plan", "g"}}, 12);
  text.add({{"rank", "0"}, {"plan", "loss"}}, 13);
  text.begin("paused", kGauge, "1 in a pause.");
  text.add({}, 0.5);
  EXPECT_EQ(text.text(),
            "# HELP steps_total Complete steps.\n"
            "# TYPE steps_total counter\n"
            "steps_total{rank=\"0\",plan=\"g\"} 12\n"
            "steps_total{rank=\"0\",plan=\"loss\"} 13\n"
            "# HELP paused 1 in a pause.\n"
            "# TYPE paused gauge\n"
            "paused 0.5\n");
}

TEST(PrometheusText, OmitsFamilyWithoutSamples) {
  PrometheusText text;
  text.begin("a", kCounter, "a");
  text.begin("b", kCounter, "b");
  text.add({}, 1);
  text.begin("c", kCounter, "c");
  EXPECT_EQ(text.text(), "# HELP b b\n# TYPE b counter\nb 1\n");
}

TEST(PrometheusText, EscapesLabelsAndHelp) {
  EXPECT_EQ(escape_label("a\\b\"c\nd{},="), "a\\\\b\\\"c\\\\x0ad{},=");
  EXPECT_EQ(escape_label("sch\xc3\xb6n"), "sch\xc3\xb6n");
  EXPECT_EQ(escape_label("\xff|"), "\\\\xff|");
  EXPECT_EQ(escape_label(""), "");
  PrometheusText text;
  text.begin("a", kGauge, "first\nsecond \\ \"quoted\"");
  text.add({{"host", "x\ny"}}, 1);
  EXPECT_EQ(
      text.text(),
      "# HELP a first\\\\x0asecond \\\\ \"quoted\"\n# TYPE a gauge\na{host=\"x\\\\x0ay\"} 1\n");
}

TEST(PrometheusText, NumbersRoundTrip) {
  for (const double value : {0.0, 1.0, 0.1, 1e-9, 123456789.123456789, 1.7e18, -2.5})
    EXPECT_EQ(std::stod(prometheus_number(value)), value);
  EXPECT_EQ(prometheus_number(12), "12");
  EXPECT_EQ(prometheus_number(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(prometheus_number(std::numeric_limits<double>::infinity()), "+Inf");
  EXPECT_EQ(prometheus_number(-std::numeric_limits<double>::infinity()), "-Inf");
}

}  // namespace
}  // namespace horo::metrics
