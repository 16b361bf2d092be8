// A planted bug that scripts/fuzz must find, to show that it detects faults of the other targets: the key of a touch is
// copied into a buffer of 16 bytes.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "codec/parse_harness.hpp"

namespace {

constexpr std::size_t room = 16;
volatile char sink;

void copy_keys(const tandem::Batch& batch) {
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    const tandem::Query& q = batch.query(i);
    if (q.opcode != tandem::Opcode::touch) continue;
    const std::unique_ptr<char[]> copy(new char[room]);
    std::memcpy(copy.get(), q.key, q.key_bytes);
    sink = copy[0];
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tandem::codec::ParseHarness harness({});
  harness.on_batch = [](tandem::Parser&, tandem::Batch& batch, const char*, std::size_t) { copy_keys(batch); };
  harness.offer({reinterpret_cast<const char*>(data), size});
  return 0;
}
