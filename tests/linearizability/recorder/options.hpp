// What a recording is told on its command line.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "recording.hpp"
#include "target.hpp"

namespace tandem::record {

struct Options : RecordingOptions {
  TargetOptions target;
  std::uint16_t port = 0;
  std::string out, name = "a history";
  bool may_vanish = false;         // items may be evicted
  std::uint64_t crash_within = 0;  // schedules: the process dies after so many points at most, and another goes on
  bool crash_serving = false;      // they are counted from when the store serves
};

// Pairs of a name and a value. Throws std::invalid_argument.
Options parse(std::span<char* const> words);

}  // namespace tandem::record
