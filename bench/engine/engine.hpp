// `tandem bench engine`: the store without a network, as in the papers' offline measurements (DIDO, Section V-E;
// Mega-KV, Section 8.1): requests in wire format in memory -> tasks -> responses in wire format in memory.
//
// A cell is a workload, a number of threads and a batch size. Its subjects take turns; each turn is a run of the
// document, and figures are compared within a round.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/document.hpp"
#include "bench/engine/format.hpp"
#include "bench/engine/plan.hpp"
#include "bench/engine/sink.hpp"
#include "bench/engine/tape.hpp"
#include "engine/engine.hpp"
#include "planner/coefficients.hpp"
#include "planner/profile.hpp"

namespace tandem::bench {

struct EngineSettings {
  std::vector<std::string> workloads;           // presets
  bool alternates = false;                      // two workloads that alternate ...
  double alternate_every_s = 0.002;             // ... at this interval
  std::optional<double> theta;                  // of zipf workloads, instead of 0.99
  std::uint64_t shift_ops = 0, shift_keys = 0;  // workload::Spec's, of zipf workloads
  std::uint64_t keys = 0;                       // 0: enough to fill item_bytes
  std::uint64_t item_bytes = std::uint64_t{192} << 20;
  std::vector<unsigned> threads;  // empty: one for each processor
  std::vector<std::uint32_t> batches = {1024};
  std::vector<std::uint32_t> batches_per_us;  // instead of them: requests for each microsecond of the cycle
  WireProtocol protocol = WireProtocol::text;
  std::uint32_t in_flight = 0;            // requests of one connection in a batch; 0: a batch is one connection's
  SinkKind sink = SinkKind::copy;         // where the replies of the wire format go
  bool getk = false;                      // also run everything with client-compared keys in GETs; meta only
  std::string index = "cuckoo";           // a name of engine_indexes()
  std::string plan = "cpu";               // a name of all_engine_plans(), or a plan's text
  std::vector<PlanChoice> plans;          // instead of it, the threads and the batches: they take turns
  bool simulate = false;                  // simulate the plan's devices in software
  unsigned devices = 1;                   // of the plan, each with a shard of the index
  bool steal = false;                     // SchedulerOptions::steal
  std::vector<unsigned> cycles_us = {0};  // minimum between two launches of the plan's device
  // Operations a second of all threads together, in an open loop: each batch has a time at which it is received, where
  // its latency begins. 0: a closed loop. Several make a cell each.
  std::vector<double> rates = {0};
  double timeline_every_s = 0;        // of latencies, in the runs; 0: none
  bool from_start = false;            // the first turn comes without a comparison before, in which the store learns
  double miss_share = 0;              // of the GETs: of keys that were never stored
  std::vector<std::string> subjects;  // empty: all that apply
  unsigned rounds = 5;
  double seconds = 0.2;   // of a turn
  std::uint64_t ops = 0;  // of a turn and thread, instead of the seconds
  Tape::Limits tape;
  bool cache_misses = true;  // count them if the kernel permits
  std::uint64_t seed = 1;
  std::string memory_file;  // holds the items; empty: in memory only
};

// DIDO's 24, in its order.
const std::vector<std::string>& dido_workloads();
// The subjects' names as options have them: wire, embedded, two-lines, copy.
const std::vector<std::string>& engine_subjects();
// The kinds of index that it can have; `ordered`: cuckoo, and the keys' order beside it.
const std::vector<std::string>& engine_indexes();

// Throws std::invalid_argument with a message for users. Settings that it accepts can be run by run_engine().
void validate(const EngineSettings& settings);
// `tandem bench engine ...` with these settings: the command line that reproduces a run.
std::string command_line(const EngineSettings& settings);

// A cell of several plans: its load as the profiler saw it, and what a query demands with each plan, in their order.
struct PlanMeasurement {
  Profile profile;
  std::string gpu;  // its name; empty: no plan has one
  std::vector<Demand> demands;
};

struct EngineHooks {
  std::function<void(std::string_view)> progress;  // receives what is measured now
  std::function<void(const Json& cell)> cell;      // receives each cell's summary, as in summary()
  std::function<void(const Json& cell, const PlanMeasurement&)> measured;  // the same, of several plans
  std::function<void(Engine&)> loaded;  // called when the keys are stored, before any run
  // Called when a turn of the wire subject begins. What it returns is called when the turn has ended, and returns
  // members for the run's result.
  std::function<std::function<Json()>(Engine&, unsigned round)> turn;
};

// Runs all cells: adds runs, comparisons and notes to the document, and returns a summary of the cells. Wrong values,
// wrong replies and misses are counted in the runs' errors.
Json run_engine(const EngineSettings& settings, Json& document, const EngineHooks& hooks = {});

// The errors in the document's runs, in words; empty: none.
std::string errors_of(const Json& document);

// Of cells with several plans: a table with a row for each of them, and their geometric means over the cells.
std::string plans_heading();
std::string plans_rows(const Json& cell);
std::string plans_means(const Json& cells);

// A table with a row for each cell of the summary, and the gain by threads, if measured.
std::string engine_heading();
std::string engine_row(const Json& cell);
std::string engine_scaling(const Json& cells);
// Latencies of the cells with a rate.
std::string engine_rates(const Json& cells);
// The gain by getk, if measured.
std::string engine_getk(const Json& cells);

}  // namespace tandem::bench
