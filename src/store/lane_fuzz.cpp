// Any bytes, cut anywhere, to a store with a lane and to one without: the same replies, byte for byte, and the same
// counts.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "lane/state.hpp"
#include "store/lane_harness.hpp"

namespace {

// The first bytes choose, the rest is the input.
constexpr std::size_t choice_bytes = 6;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < choice_bytes) return 0;
  const auto built = tandem::lane::ops_built();
  const tandem::lane::Ops& ops = *built[data[0] % built.size()];
  if (!ops.supported()) return 0;
  tandem::LaneHarness harness(ops.name);
  if ((data[1] & 1) != 0) harness.output_bytes_max = 1u + data[1];
  harness.exchange("set a 0 0 1\r\nA\r\nset b 7 0 2\r\nBB\r\nset aLongKeyOf20Letters 0 0 3\r\nCCC\r\n");
  const std::string_view input(reinterpret_cast<const char*>(data) + choice_bytes, size - choice_bytes);
  std::uint32_t now_s = tandem::codec::ReplyHarness::start_s;
  for (std::size_t at = 0, i = 0; at < input.size() && !harness.closed(); ++i) {
    const std::size_t bytes = std::max<std::size_t>(1, data[2 + i % 4]);
    const auto answers = harness.exchange(input.substr(at, bytes));
    TD_ASSERT(answers.with == answers.without);
    at += bytes;
    if (i % 8 == 7) harness.set_time(now_s += 3);
  }
  const tandem::StoreCounters &with = harness.counters_with(), &without = harness.counters_without();
  TD_ASSERT(with.cmd_get.get() == without.cmd_get.get() && with.get_hits.get() == without.get_hits.get() &&
            with.get_misses.get() == without.get_misses.get() && with.cmd_set.get() == without.cmd_set.get() &&
            with.total_items.get() == without.total_items.get());
  return 0;
}
