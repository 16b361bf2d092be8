// Texts of the in-process mode's results.
#include <fmt/format.h>

#include "bench/engine/engine.hpp"
#include "bench/engine/subject.hpp"

namespace tandem::bench {
namespace {

const Json* find(const Json& array, std::string_view key, std::string_view value) {
  for (const Json& one : array) {
    if (one.at(std::string(key)) == value) return &one;
  }
  return nullptr;
}

std::string rate(const Json& cell, std::string_view subject, bool with_spread) {
  const Json* const found = find(cell.at("subjects"), "subject", subject);
  if (found == nullptr) return "-";
  const Json& r = (*found)["ops_per_s"];
  const double median = r["median"].get<double>() / 1e6;
  if (!with_spread) return fmt::format("{:.2f}", median);
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", median, r["low"].get<double>() / 1e6, r["high"].get<double>() / 1e6);
}

std::string ratio(const Json& cell, std::string_view subject, std::string_view base) {
  for (const Json& c : cell.at("comparisons")) {
    if (c["subject"] != subject || c["base"] != base) continue;
    const Json& r = c["ratio"];
    return fmt::format("{:.0f} % ({:.0f}-{:.0f})", 100 * r["median"].get<double>(), 100 * r["low"].get<double>(),
                       100 * r["high"].get<double>());
  }
  return "-";
}

std::string tasks(const Json& cell) {
  const Json* const wire = find(cell.at("subjects"), "subject", subject_wire);
  std::string text;
  if (wire == nullptr || !wire->contains("tasks") || (*wire)["tasks"].empty()) return "-";
  for (const Json& task : (*wire)["tasks"]) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {:.1f}", task["task"].get<std::string>(), task["ns_per_query"].get<double>());
  }
  return text;
}

// The sum of the tasks' times, relative to a thread's time per query at the measured rate.
std::string accounted(const Json& cell) {
  const Json* const wire = find(cell.at("subjects"), "subject", subject_wire);
  if (wire == nullptr || !wire->contains("tasks_of_rate")) return "-";
  return fmt::format("{:.0f} %", 100 * (*wire)["tasks_of_rate"].get<double>());
}

}  // namespace

std::string engine_heading() {
  return "| workload | batch | threads | wire, M ops/s | embedded, M ops/s | two-line loop, M/s | wire / loop | "
         "embedded / loop | copy loop, M/s | wire / loop | embedded / loop | tasks, ns a query | their sum / "
         "threads by rate |\n"
         "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|\n";
}

std::string engine_row(const Json& cell) {
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                     cell["workload"].get<std::string>(), cell["batch"].get<unsigned>(),
                     cell["threads"].get<unsigned>(), rate(cell, subject_wire, true),
                     rate(cell, subject_embedded, true), rate(cell, subject_two_lines, false),
                     ratio(cell, subject_wire, subject_two_lines), ratio(cell, subject_embedded, subject_two_lines),
                     rate(cell, subject_copy, false), ratio(cell, subject_wire, subject_copy),
                     ratio(cell, subject_embedded, subject_copy), tasks(cell), accounted(cell));
}

std::string engine_scaling(const Json& cells) {
  std::string text;
  for (const Json& many : cells) {
    for (const Json& one : cells) {
      if (one["threads"] != 1 || many["threads"] == 1 || one["workload"] != many["workload"] ||
          one["batch"] != many["batch"]) {
        continue;
      }
      text += fmt::format("scaling 1 -> {} threads, {}, batches of {}:", many["threads"].get<unsigned>(),
                          many["workload"].get<std::string>(), many["batch"].get<unsigned>());
      for (const Json& subject : many["subjects"]) {
        const std::string name = subject["subject"];
        const Json* const before = find(one["subjects"], "subject", name);
        if (before == nullptr) continue;
        text +=
            fmt::format(" {} {:.2f}x,", name,
                        subject["ops_per_s"]["median"].get<double>() / (*before)["ops_per_s"]["median"].get<double>());
      }
      text.back() = '\n';
    }
  }
  return text;
}

std::string engine_rates(const Json& cells) {
  std::string text;
  for (const Json& cell : cells) {
    const double offered = cell["rate"];
    if (offered == 0) continue;
    text +=
        fmt::format("{:.6g} M ops/s offered, {}, batches of {}, {} threads: {} answered; latency, us:", offered / 1e6,
                    cell["workload"].get<std::string>(), cell["batch"].get<unsigned>(), cell["threads"].get<unsigned>(),
                    rate(cell, subject_wire, true));
    const Json& latency = (*find(cell.at("subjects"), "subject", subject_wire))["latency_us"];
    for (const auto& [name, us] : latency.items())
      text += fmt::format(" {} {:.1f} ({:.1f}-{:.1f}),", name, us["median"].get<double>(), us["low"].get<double>(),
                          us["high"].get<double>());
    text.back() = '\n';
  }
  return text;
}

std::string engine_getk(const Json& cells) {
  std::string text;
  for (const Json& cell : cells) {
    if (find(cell.at("subjects"), "subject", subject_wire_getk) == nullptr) continue;
    text +=
        fmt::format("getk / get, {}, batches of {}, {} threads: wire {} M ops/s, {} of get",
                    cell["workload"].get<std::string>(), cell["batch"].get<unsigned>(), cell["threads"].get<unsigned>(),
                    rate(cell, subject_wire_getk, true), ratio(cell, subject_wire_getk, subject_wire));
    if (find(cell.at("subjects"), "subject", subject_embedded_getk) != nullptr) {
      text += fmt::format("; embedded {} M ops/s, {} of get", rate(cell, subject_embedded_getk, true),
                          ratio(cell, subject_embedded_getk, subject_embedded));
    }
    text += fmt::format("; answers of another key: {}\n", cell["other_keys"].get<std::uint64_t>());
  }
  return text;
}

}  // namespace tandem::bench
