#include "bench/compare/load_run.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace tandem::bench {
namespace {

using load::Options;
using load::Result;
using workload::OpKind;
using workload::Spec;

constexpr std::array<std::pair<const char*, double>, 5> load_percentiles{
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

// Three decimal digits: nanoseconds.
double in_us(double ns) { return std::round(ns) / 1000; }
double in_us(std::uint64_t ns) { return static_cast<double>(ns) / 1000; }

std::string popularity_of(const Spec& spec) {
  std::string text(workload::to_string(spec.popularity));
  const bool has_theta =
      spec.popularity == workload::Popularity::zipf || spec.popularity == workload::Popularity::latest;
  return has_theta ? fmt::format("{} {}", text, spec.theta) : text;
}

std::string workload_name(const Options& options) {
  if (!options.trace.empty()) return "trace " + options.trace;
  std::string name;
  for (const Spec& spec : options.workloads)
    name += (name.empty() ? "" : ", ") + (spec.name.empty() ? popularity_of(spec) : spec.name);
  return name;
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

Json describe_settings(const Options& o) {
  const Spec& spec = o.workloads.front();
  Json settings{{"protocol", to_string(o.protocol)},
                {"udp", o.udp},
                {"connections", o.connections},
                {"threads", o.threads},
                {"pipeline", o.pipeline},
                {"multiget", o.multiget},
                {"rate", o.rate_per_s}};
  if (o.rate_per_s > 0) settings["arrivals"] = o.arrivals == load::Arrivals::poisson ? "poisson" : "uniform";
  settings["workload"] = workload_name(o);
  if (o.trace.empty()) {
    settings["keys"] = spec.keys;
    settings["key_bytes"] = workload::to_string(spec.key_bytes);
    settings["value_bytes"] = workload::to_string(spec.value_bytes);
    settings["distribution"] = workload::to_string(spec.popularity);
    settings["theta"] = spec.theta;
    settings["get_share"] = spec.mix[OpKind::get];
    settings["ttl_s"] = spec.ttl_s;
    if (spec.mix[OpKind::scan] > 0)
      settings["scan_items"] = fmt::format("{}-{}", spec.scan_keys_min, spec.scan_keys_max);
    if (spec.shift_ops != 0) {
      settings["shift_ops"] = spec.shift_ops;
      settings["shift_keys"] = spec.shift_keys;
    }
  } else if (o.replay_speed > 0) {
    settings["replay_speed"] = o.replay_speed;
  }
  if (o.workloads.size() > 1) {
    if (o.alternation.every_ops != 0) {
      settings["every_ops"] = o.alternation.every_ops;
    } else {
      settings["every_us"] = in_us(o.alternation.every_ns);
    }
  }
  if (o.getk) settings["getk"] = true;
  settings["seconds"] = o.seconds;
  if (o.ops != 0) settings["ops"] = o.ops;
  settings["warmup"] = o.ops != 0 || o.seconds == 0 ? 0 : o.warmup_s;
  settings["timeout"] = o.timeout_s;
  settings["spin"] = o.spin;
  settings["verify"] = o.verify;
  settings["require_hits"] = o.require_hits;
  if (!o.processors.empty()) settings["load_processors"] = joined(o.processors);
  return settings;
}

Json describe_histogram(const load::Histogram& histogram) {
  Json upper = Json::array();
  Json counts = Json::array();
  for (std::size_t i = 0; i < load::Histogram::bucket_count; ++i) {
    if (histogram.count_of(i) == 0) continue;
    upper.push_back(in_us(load::Histogram::last_of(i)));
    counts.push_back(histogram.count_of(i));
  }
  return {{"unit", "us"}, {"upper", upper}, {"counts", counts}};
}

Json describe_other_ops(const load::Counts& counts) {
  Json other = Json::object();
  for (const OpKind kind : {OpKind::insert, OpKind::read_modify_write, OpKind::scan, OpKind::remove, OpKind::touch}) {
    const std::uint64_t count = counts.of(kind);
    if (count != 0) other[std::string(workload::to_string(kind))] = count;
  }
  return other;
}

double per_second(std::uint64_t count, const Result& result) {
  return result.seconds > 0 ? static_cast<double>(count) / result.seconds : 0;
}

Json describe_timeline(const Result& result) {
  Json timeline = Json::array();
  for (const load::TimelinePoint& point : result.timeline) {
    Json one{{"t", std::round(point.end_s * 1e6) / 1e6}, {"ops_per_s", point.ops_per_s}};
    if (point.max_ns != 0) {
      one["p50"] = in_us(point.p50_ns);
      one["p99"] = in_us(point.p99_ns);
      one["max"] = in_us(point.max_ns);
    }
    timeline.push_back(std::move(one));
  }
  return timeline;
}

Json describe_result(const Options& options, const Result& result) {
  const load::Counts& counts = result.counts;
  const load::Errors& errors = result.errors;
  const std::uint64_t ops = result.ops();
  Json out{
      {"seconds", result.seconds}, {"ops", ops},          {"ops_per_s", result.ops_per_s()},
      {"gets", counts.gets},       {"hits", counts.hits}, {"misses", counts.gets - counts.hits - counts.other_keys},
      {"sets", counts.sets}};
  if (options.getk) out["other_keys"] = counts.other_keys;
  if (counts.of(OpKind::scan) != 0) {
    out["scan_items"] = counts.scan_items;
    out["scan_items_per_s"] = per_second(counts.scan_items, result);
    out["scans_cut"] = counts.scans_cut;
    out["scan_missing_keys"] = counts.scan_missing_keys;
  }
  if (Json other = describe_other_ops(counts); !other.empty()) out["other"] = std::move(other);
  out["bytes_sent"] = counts.bytes_sent;
  out["bytes_received"] = counts.bytes_received;
  out["errors"] = {{"wrong_values", errors.wrong_values},
                   {"wrong_replies", errors.wrong_replies},
                   {"unexpected_misses", errors.unexpected_misses},
                   {"timeouts", errors.timeouts},
                   {"connection", errors.connection},
                   {"first", errors.first}};
  if (result.latency.total() != 0) {
    out["latency_us"] = describe_latency(result.latency);
    Json by_op = Json::object();
    for (std::size_t i = 0; i < workload::op_kind_count; ++i) {
      if (result.latency_by_op[i])
        by_op[std::string(workload::to_string(static_cast<OpKind>(i)))] = describe_latency(*result.latency_by_op[i]);
    }
    out["latency_by_op"] = std::move(by_op);
    out["histogram"] = describe_histogram(result.latency);
  }
  if ((options.rate_per_s > 0 || options.replay_speed > 0) && result.lag.total() != 0)
    out["send_lag_us"] = describe_latency(result.lag);
  out["timeline"] = describe_timeline(result);
  const double per_op = ops != 0 ? 1 / static_cast<double>(ops) : 0;
  if (result.server) {
    Json server = Json::object();
    if (ops != 0) {
      server["cpu_us_per_op"] = static_cast<double>(result.server->cpu_ns) * 1e-3 * per_op;
      server["sleeps_per_op"] = static_cast<double>(result.server->sleeps) * per_op;
    }
    if (result.seconds > 0) server["cpu_share"] = static_cast<double>(result.server->cpu_ns) * 1e-9 / result.seconds;
    if (result.server->resident_bytes) server["resident_bytes"] = *result.server->resident_bytes;
    out["server"] = std::move(server);
  }
  if (ops != 0) out["client_cpu_us_per_op"] = static_cast<double>(result.client_cpu_ns) * 1e-3 * per_op;
  return out;
}

std::string plural(std::uint64_t n, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

std::string latency_line(std::string_view name, const load::Histogram& h) {
  std::string line = fmt::format("  {:<18}", name);
  line += fmt::format("{:>10.1f}", h.mean() / 1000);
  for (const auto& [label, fraction] : load_percentiles) line += fmt::format("{:>10.1f}", in_us(h.quantile(fraction)));
  return line + fmt::format("{:>10.1f}\n", in_us(h.max()));
}

}  // namespace

std::string_view to_string(load::Protocol protocol) {
  switch (protocol) {
    case load::Protocol::text:
      return "text";
    case load::Protocol::meta:
      return "meta";
    case load::Protocol::binary:
      return "binary";
    case load::Protocol::resp:
      return "resp";
  }
  return "";
}

Json describe_latency(const load::Histogram& histogram) {
  Json out{{"count", histogram.total()}, {"min", in_us(histogram.min())}, {"mean", in_us(histogram.mean())}};
  for (const auto& [name, fraction] : load_percentiles) out[name] = in_us(histogram.quantile(fraction));
  out["max"] = in_us(histogram.max());
  return out;
}

Json describe_load_run(const RunLabel& label, const Options& options, const Result& result,
                       const std::optional<Energy>& energy) {
  Json described = describe_result(options, result);
  if (energy) described["energy"] = to_json(*energy, result.ops());
  return {{"kind", "load"},
          {"cell", label.cell},
          {"subject", label.subject},
          {"round", label.round},
          {"command", label.command},
          {"seed", options.workloads.front().seed},
          {"settings", describe_settings(options)},
          {"result", std::move(described)}};
}

std::string summarize_errors(const load::Errors& errors) {
  std::string text;
  const auto add = [&text](std::uint64_t n, std::string_view one, std::string_view many) {
    if (n != 0) text += (text.empty() ? "" : ", ") + plural(n, one, many);
  };
  add(errors.wrong_values, "wrong value", "wrong values");
  add(errors.wrong_replies, "wrong reply", "wrong replies");
  add(errors.unexpected_misses, "miss that should have been a hit", "misses that should have been hits");
  add(errors.timeouts, "timeout", "timeouts");
  add(errors.connection, "broken connection", "broken connections");
  return text;
}

namespace {

std::string summarize_latency(const Result& result) {
  std::string out = fmt::format("\n  {:<18}{:>10}", "latency, us", "mean");
  for (const auto& [label, fraction] : load_percentiles) out += fmt::format("{:>10}", label);
  out += fmt::format("{:>10}\n", "max");
  std::size_t kinds = 0;
  for (const auto& histogram : result.latency_by_op) kinds += histogram ? 1U : 0U;
  for (std::size_t i = 0; kinds > 1 && i < workload::op_kind_count; ++i) {
    if (result.latency_by_op[i])
      out += latency_line(workload::to_string(static_cast<OpKind>(i)), *result.latency_by_op[i]);
  }
  out += latency_line("all", result.latency);
  if (result.lag.total() != 0) out += latency_line("sent late by", result.lag);
  return out;
}

}  // namespace

std::string summarize_load_run(const Options& options, const Result& result) {
  const load::Counts& counts = result.counts;
  const double seconds = result.seconds > 0 ? result.seconds : 1;
  std::string out =
      fmt::format("{}: {}{}, {}, {}, {} in flight", options.server, to_string(options.protocol),
                  options.udp ? " over UDP" : "", plural(options.connections, "connection", "connections"),
                  plural(options.threads, "thread", "threads"), options.pipeline);
  if (options.getk) out += ", getk";
  if (options.multiget > 1) out += fmt::format(", {} keys per get", options.multiget);
  out += options.rate_per_s > 0     ? fmt::format(", open loop at {:.0f} op/s", options.rate_per_s)
         : options.replay_speed > 0 ? fmt::format(", open loop by the trace's times x {}", options.replay_speed)
                                    : std::string(", closed loop");
  out += fmt::format("\n{}", workload_name(options));
  if (options.trace.empty()) {
    const Spec& spec = options.workloads.front();
    out += fmt::format("; {} keys of {} bytes, values of {} bytes", spec.keys, workload::to_string(spec.key_bytes),
                       workload::to_string(spec.value_bytes));
  }
  out += fmt::format("\n\n  {:.0f} op/s: {} operations in {:.3f} s; {:.1f} MB/s sent, {:.1f} MB/s received\n",
                     result.ops_per_s(), result.ops(), result.seconds,
                     static_cast<double>(counts.bytes_sent) / seconds * 1e-6,
                     static_cast<double>(counts.bytes_received) / seconds * 1e-6);
  if (counts.gets != 0) {
    out += fmt::format("  {} keys read, {:.2f} % found; {} values written\n", counts.gets,
                       100.0 * static_cast<double>(counts.hits) / static_cast<double>(counts.gets), counts.sets);
  } else {
    out += fmt::format("  {} values written\n", counts.sets);
  }
  if (const std::uint64_t scans = counts.of(OpKind::scan); scans != 0) {
    out += fmt::format("  {:.0f} items/s by scans: {} items of {}, {:.1f} each; {} cut short\n",
                       per_second(counts.scan_items, result), counts.scan_items, plural(scans, "scan", "scans"),
                       static_cast<double>(counts.scan_items) / static_cast<double>(scans), counts.scans_cut);
  }
  if (options.getk) out += fmt::format("  getk: {} answers were of another key\n", counts.other_keys);
  if (result.latency.total() != 0) out += summarize_latency(result);
  if (result.ops() != 0) {
    const double per_op = 1e-3 / static_cast<double>(result.ops());
    out += fmt::format("\n  client: {:.3f} us of processor time per operation\n",
                       static_cast<double>(result.client_cpu_ns) * per_op);
    if (result.server) {
      out += fmt::format("  server: {:.3f} us of processor time and {:.4f} sleeps per operation",
                         static_cast<double>(result.server->cpu_ns) * per_op,
                         static_cast<double>(result.server->sleeps) / static_cast<double>(result.ops()));
      if (result.server->resident_bytes)
        out += fmt::format("; {:.1f} MiB resident", static_cast<double>(*result.server->resident_bytes) / 0x1p20);
      out += '\n';
    }
  }
  return out;
}

}  // namespace tandem::bench
