#include "serve/metrics_text.h"

#include <gtest/gtest.h>

namespace baltoro::serve {
namespace {

TEST(MetricsText, WritesFamiliesAsPrometheusReadsThem) {
  MetricsText out;
  out.counter("a_total", 3, "Things.");
  out.head("b", "gauge", "Others.");
  out.sample(0.5, {{"x", "1"}, {"y", "quote \" slash \\ line\n"}});
  EXPECT_EQ(out.text(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 3\n"
            "# HELP b Others.\n# TYPE b gauge\n"
            "b{x=\"1\",y=\"quote \\\" slash \\\\ line\\n\"} 0.5\n");
}

TEST(MetricsText, HistogramsAddUp) {
  Histogram histogram({0.1, 1});
  for (const double value : {0.05, 0.1, 0.5, 2.0, 3.0}) histogram.observe(value);
  MetricsText out;
  out.head("h", "histogram", "Times.");
  out.samples(histogram);
  EXPECT_EQ(out.text(),
            "# HELP h Times.\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 2\nh_bucket{le=\"1\"} 3\n"
            "h_bucket{le=\"+Inf\"} 5\nh_sum 5.65\nh_count 5\n");
}

TEST(MetricsText, LargeNumbersKeepTheirDigits) {
  MetricsText out;
  out.gauge("bytes", 123456789012345.0, "Many.");
  EXPECT_NE(out.text().find("bytes 123456789012345"), std::string::npos) << out.text();
}

}  // namespace
}  // namespace baltoro::serve
