// Metric families in Prometheus' text format, built one after another.
#pragma once
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace tandem::monitor {

using Labels = std::vector<prometheus::ClientMetric::Label>;

class Families {
 public:
  void counter(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Counter);
  }
  void gauge(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  }
  void histogram(std::string name, std::string help) {
    begin(std::move(name), std::move(help), prometheus::MetricType::Histogram);
  }

  // Adds a value to the family begun last.
  template <class T>
  void put(T value, Labels labels = {}) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == prometheus::MetricType::Counter) {
      metric.counter.value = static_cast<double>(value);
    } else {
      metric.gauge.value = static_cast<double>(value);
    }
    families_.back().metric.push_back(std::move(metric));
  }
  void put(prometheus::ClientMetric::Histogram value, Labels labels) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    metric.histogram = std::move(value);
    families_.back().metric.push_back(std::move(metric));
  }

  std::string text() const {
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return std::move(out).str();
  }

 private:
  void begin(std::string name, std::string help, prometheus::MetricType type) {
    families_.push_back({std::move(name), std::move(help), type, {}});
  }
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace tandem::monitor
