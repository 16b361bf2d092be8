// Any bytes as a trace, as sizes and as a preset's name give a valid object, or an error with a message, nothing else.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/platform.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/trace.hpp"

using namespace tandem::workload;

namespace {

void check(const Trace& trace) {
  TD_ASSERT(!trace.records().empty() && trace.records().size() <= 1000);
  std::uint64_t before_us = 0;
  for (const TraceRecord& r : trace.records()) {
    TD_ASSERT(r.key < trace.key_count() && r.value_bytes <= value_bytes_limit && r.time_us >= before_us);
    before_us = r.time_us;
  }
  for (std::uint32_t k = 0; k < trace.key_count(); ++k) {
    TD_ASSERT(!trace.key(k).empty() && trace.key(k).size() <= key_bytes_max);
    for (const char c : trace.key(k)) TD_ASSERT(c < 0 || (c > ' ' && c != 0x7f));
  }
  const TracePartition partition(trace, 3);
  std::size_t records = 0;
  for (std::uint32_t s = 0; s < 3; ++s) records += partition.stream(s).size();
  TD_ASSERT(records == trace.records().size());
}

template <class Parse>
void check_sizes(Parse parse, std::string_view text, std::uint32_t least, std::uint32_t most) {
  try {
    const Sizes sizes = parse(text);
    TD_ASSERT(least <= sizes.least() && sizes.least() <= sizes.most() && sizes.most() <= most);
    TD_ASSERT(parse(to_string(sizes)) == sizes);
    for (std::uint64_t i = 0; i < 64; ++i) {
      const std::uint32_t bytes = sizes.of(mix64(i));
      TD_ASSERT(bytes >= sizes.least() && bytes <= sizes.most());
    }
  } catch (const std::invalid_argument& error) {
    TD_ASSERT(*error.what() != 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::istringstream in(text);
  try {
    check(Trace::parse(in, "fuzz.csv", 1000));
  } catch (const TraceError& error) {
    TD_ASSERT(std::string_view(error.what()).starts_with("fuzz.csv:"));
    for (const char* c = error.what(); *c != 0; ++c) TD_ASSERT(*c >= ' ' && *c <= '~');
  }
  if (size > 64) return 0;
  check_sizes(parse_key_sizes, text, key_bytes_min, key_bytes_max);
  check_sizes(parse_value_sizes, text, 0, value_bytes_limit);
  try {
    validate(preset(text));
  } catch (const std::invalid_argument& error) {
    TD_ASSERT(*error.what() != 0);
  }
  return 0;
}
