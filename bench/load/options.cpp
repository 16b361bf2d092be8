#include "bench/load/options.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cmath>
#include <stdexcept>

#include "bench/load/codec.hpp"
#include "bench/load/plan.hpp"
#include "codec/udp.hpp"

namespace tandem::load {
namespace {

using workload::OpKind;

constexpr std::uint32_t connections_limit = 60'000;
constexpr std::uint32_t threads_limit = 1024;
constexpr std::uint32_t pipeline_limit = 100'000;
constexpr std::uint32_t multiget_limit = 10'000;
constexpr std::uint32_t scan_items_limit = 1024;       // of a reply to mr
constexpr std::uint32_t udp_requests_max = 2048;       // in flight on a socket
constexpr std::size_t udp_request_bytes_max = 60'000;  // a datagram's payload, minus overhead around keys and values

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

void check_range(std::uint64_t value, std::uint64_t most, std::string_view name) {
  if (value < 1 || value > most) refuse(fmt::format("{} must be 1 to {}", name, most));
}

// Scans meet the keys of all workloads, and only those of their own are known.
void check_scans(const Options& options, const workload::Spec& spec) {
  if (options.udp) refuse("scans go over TCP only: a reply of many datagrams would often be lost");
  if (spec.scan_keys_max > scan_items_limit)
    refuse(fmt::format("a scan has at most {} items: a reply to mr has no more", scan_items_limit));
  for (const workload::Spec& other : options.workloads) {
    if (other.key_bytes != spec.key_bytes || other.value_bytes != spec.value_bytes)
      refuse("workloads that alternate with scans must have the same sizes of keys and values");
  }
}

void check_workload(const Options& options, const workload::Spec& spec) {
  workload::validate(spec);
  for (std::size_t i = 0; i < workload::op_kind_count; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (spec.mix[kind] > 0 && !can_ask(options.protocol, kind))
      refuse(fmt::format(
          "the workload{}{} has {}s, which only --protocol meta can ask for (mr, of a Tandem server with --ordered or "
          "--preset heterokv)",
          spec.name.empty() ? "" : " ", spec.name, workload::to_string(kind)));
  }
  if (spec.mix[OpKind::scan] > 0) check_scans(options, spec);
  if (options.multiget > 1 && spec.mix[OpKind::get] == 0) refuse("several keys per get need a workload with gets");
  if (!options.udp) return;
  const std::size_t set_bytes = std::size_t{spec.key_bytes.most()} + spec.value_bytes.most();
  const std::size_t get_bytes = std::size_t{options.multiget} * (spec.key_bytes.most() + request_overhead_bytes_max);
  if (set_bytes > udp_request_bytes_max || (options.multiget > 1 && get_bytes > udp_request_bytes_max))
    refuse("over UDP a request must fit a datagram: smaller values or fewer keys per get");
}

// Workloads with keys of the same bytes must have the same values.
void check_alternation(const Options& options) {
  const Alternation& by = options.alternation;
  if (options.workloads.size() > 255) refuse("at most 255 workloads alternate");
  if (by.every_ns == 0 && by.every_ops == 0) refuse("workloads that alternate need a time or a number of operations");
  for (const workload::Spec& a : options.workloads) {
    for (const workload::Spec& b : options.workloads) {
      const bool may_meet = a.key_bytes.least() <= b.key_bytes.most() && b.key_bytes.least() <= a.key_bytes.most();
      const bool same = a.key_bytes == b.key_bytes && a.value_bytes == b.value_bytes;
      if (may_meet && !same)
        refuse("workloads that alternate must have keys of different sizes, or the same sizes of keys and values");
    }
  }
}

}  // namespace

bool misses_are_errors(const Options& options) {
  if (!options.trace.empty()) return false;
  for (const workload::Spec& spec : options.workloads) {
    if (spec.ttl_s != 0 || spec.mix[OpKind::remove] > 0) return false;
    // Over UDP a read may overtake the insert of its key.
    if (options.udp && spec.mix[OpKind::insert] > 0) return false;
  }
  return true;
}

void validate(const Options& options) {
  check_range(options.threads, threads_limit, "threads");
  check_range(options.connections, connections_limit, "connections");
  check_range(options.pipeline, pipeline_limit, "the pipeline's depth");
  check_range(options.multiget, multiget_limit, "keys per get");
  if (options.udp && options.protocol == Protocol::resp) refuse("Redis' protocol has no UDP");
  if (options.getk && options.protocol != Protocol::meta) refuse("getk is a flag of the meta protocol");
  if (options.getk && options.multiget > 1)
    refuse("getk has one key per get: of several, an answer of another key would not tell which one was asked for");
  if (options.connections < options.threads)
    refuse(fmt::format("{} threads need as many connections at least", options.threads));
  if (!(options.rate_per_s >= 0) || !std::isfinite(options.rate_per_s)) refuse("the rate must be 0 or more");
  if (!(options.seconds >= 0) || options.seconds > 1e6) refuse("seconds must be 0 to 1000000");
  if (!(options.warmup_s >= 0) || options.warmup_s > 1e6) refuse("the warm-up must be 0 to 1000000 seconds");
  if (!(options.timeout_s > 0) || options.timeout_s > 1e6)
    refuse("the timeout must be above 0, at most 1000000 seconds");
  if (options.workloads.empty()) refuse("no workload");
  for (const int processor : options.processors)
    if (processor < 0 || processor >= CPU_SETSIZE) refuse(fmt::format("there is no processor {}", processor));
  for (const workload::Spec& spec : options.workloads) check_workload(options, spec);
  if (options.workloads.size() > 1) check_alternation(options);
  if (!options.trace.empty() && options.workloads.size() > 1) refuse("a trace does not alternate with workloads");
  if (options.trace.empty() && options.replay_speed != 0) refuse("only a trace can be replayed at a speed");
  if (!(options.replay_speed >= 0) || !std::isfinite(options.replay_speed))
    refuse("the replay's speed must be above 0");
  if (options.replay_speed > 0 && options.rate_per_s > 0) refuse("either a rate or a replay's speed");
  if (options.replay_speed > 0 && (options.pipeline > 1 || options.multiget > 1))
    refuse("a trace that is replayed by its own times has one request per send");
  if (options.trace.empty() && options.seconds == 0 && options.ops == 0) refuse("nothing to measure: 0 seconds");
  const std::uint64_t requests = std::uint64_t{options.pipeline} *
                                 (options.multiget > 1 ? others_per_key_max * std::uint64_t{options.multiget} + 1 : 1);
  if (options.udp && requests > udp_requests_max)
    refuse(fmt::format("over UDP at most {} requests may be under way on a socket", udp_requests_max));
}

}  // namespace tandem::load
