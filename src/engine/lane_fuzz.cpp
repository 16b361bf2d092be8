// Any bytes, cut anywhere, to a store with a lane and to one without: the same replies, byte for byte, and the same
// counts.
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/lane_harness.hpp"
#include "lane/state.hpp"

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
  tandem::codec::require_same_answers(harness, input, std::span(data + 2, 4).first<4>());
  return 0;
}
