// `tandem bench engine`: the store without a network, as the papers' offline measurements have it (DIDO, Section V-E;
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
#include "bench/engine/tape.hpp"
#include "store/engine.hpp"

namespace tandem::bench {

struct EngineSettings {
  std::vector<std::string> workloads;  // presets
  bool alternates = false;             // two workloads, which take the place of each other ...
  double alternate_every_s = 0.002;    // ... so often
  std::optional<double> theta;         // of zipf workloads, in place of 0.99
  std::uint64_t keys = 0;              // 0: as many as fill item_bytes
  std::uint64_t item_bytes = std::uint64_t{192} << 20;
  std::vector<unsigned> threads;  // empty: one for each processor
  std::vector<std::uint32_t> batches = {1024};
  std::vector<std::uint32_t> batches_per_us;  // in place of them: requests for each microsecond of the cycle
  WireProtocol protocol = WireProtocol::text;
  bool getk = false;                      // also run everything with GETs whose keys the client compares; meta alone
  std::string plan = "cpu";               // a name of all_engine_plans(), or a plan's text
  bool simulate = false;                  // the plan's devices, in software
  unsigned devices = 1;                   // of the plan, each with a share of the index
  bool steal = false;                     // SchedulerOptions::steal
  std::vector<unsigned> cycles_us = {0};  // between two launches of the plan's device, at least
  std::vector<std::string> subjects;      // empty: all that apply
  unsigned rounds = 5;
  double seconds = 0.2;   // of a turn
  std::uint64_t ops = 0;  // of a turn and thread, in place of the seconds
  Tape::Limits tape;
  bool cache_misses = true;  // count them where the kernel lets us
  std::uint64_t seed = 1;
  std::string memory_file;  // where items lie; empty: in memory alone
};

// DIDO's 24, in its order.
const std::vector<std::string>& dido_workloads();
// The subjects' names as options have them: wire, embedded, two-lines, copy.
const std::vector<std::string>& engine_subjects();

// Throws std::invalid_argument with a message for people. Whatever it lets pass, run_engine() can run.
void validate(const EngineSettings& settings);
// `tandem bench engine ...` with these settings: the command line that a run's figures can be had again with.
std::string command_line(const EngineSettings& settings);

struct EngineHooks {
  std::function<void(std::string_view)> progress;  // told what is measured now
  std::function<void(const Json& cell)> cell;      // told each cell's summary, as summary() has it
  std::function<void(Engine&)> loaded;             // the keys are stored; before anything else runs
};

// Runs all cells: adds runs, comparisons and notes to the document, and returns a summary of the cells. Wrong values,
// wrong replies and misses are counted in the runs' errors.
Json run_engine(const EngineSettings& settings, Json& document, const EngineHooks& hooks = {});

// What is wrong in the document's runs, in words; empty: nothing.
std::string errors_of(const Json& document);

// A table with a row for each cell of the summary; and what more threads than one bring, where both were measured.
std::string engine_heading();
std::string engine_row(const Json& cell);
std::string engine_scaling(const Json& cells);
// What getk brings, where it was measured.
std::string engine_getk(const Json& cells);

}  // namespace tandem::bench
