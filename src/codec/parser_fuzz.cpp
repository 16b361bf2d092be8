// Any bytes, cuts and batch size: the queries are those of the whole input through a large batch, every call makes
// progress, and no byte outside the offered input is read.
#include <cstdint>
#include <string>
#include <string_view>

#include "codec/parse_harness.hpp"

namespace {

using tandem::ProtocolOptions;
using tandem::codec::ParseHarness;

// The first bytes choose, the rest is the input.
struct Choices {
  bool short_lines, refuses_large;
  std::uint32_t batch_capacity;
  std::size_t cuts[4];
};
constexpr std::size_t choice_bytes = 6;

Choices choose(const std::uint8_t* data) {
  return {(data[0] & 1) != 0, (data[0] & 2) != 0, data[1] % 40u + 1, {data[2], data[3], data[4], data[5]}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < choice_bytes) return 0;
  const Choices choices = choose(data);
  const std::string_view input(reinterpret_cast<const char*>(data) + choice_bytes, size - choice_bytes);

  ProtocolOptions options;
  options.item_bytes_max = 2000;
  options.large_value_bytes = 64;
  options.config = tandem::ConfigAccess::write;
  // As in memcached, whether a line is too long depends on how much of it has arrived.
  options.line_bytes_max = choices.short_lines ? 100 : 1u << 30;

  ParseHarness whole(options, 2048);
  whole.refuses_large = choices.refuses_large;
  if (!choices.short_lines) whole.offer(input);

  ParseHarness parts(options, choices.batch_capacity);
  parts.refuses_large = choices.refuses_large;
  std::size_t at = 0;
  for (std::size_t i = 0; at < input.size(); ++i) {
    const std::size_t bytes = i % 8 == 7 ? 1 : choices.cuts[i % 4];
    parts.offer(input.substr(at, bytes));
    at += std::min(bytes, input.size() - at);
    if (parts.closed()) break;
  }
  if (choices.short_lines) return 0;
  // A value that was whole in one input arrives as a large one in the other: refused only there.
  if (choices.refuses_large) return 0;
  TD_ASSERT(parts.queries == whole.queries);
  TD_ASSERT(parts.closed() || parts.kept_bytes() == whole.kept_bytes());
  return 0;
}
