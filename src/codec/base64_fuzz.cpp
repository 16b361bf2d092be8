// Decoding any input stays in bounds, and decoding restores encoded bytes.
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/platform.hpp"
#include "codec/base64.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tandem::codec;
  const std::unique_ptr<char[]> input(new char[size]);
  std::memcpy(input.get(), data, size);

  const std::size_t decoded_max = base64_binary_bytes_max(size);
  const std::unique_ptr<char[]> decoded(new char[decoded_max]);
  TD_ASSERT(base64_decode(decoded.get(), input.get(), size) <= decoded_max);

  const std::unique_ptr<char[]> encoded(new char[base64_bytes(size)]);
  TD_ASSERT(base64_encode(encoded.get(), input.get(), size) == encoded.get() + base64_bytes(size));
  const std::unique_ptr<char[]> again(new char[base64_binary_bytes_max(base64_bytes(size))]);
  const std::size_t bytes = base64_decode(again.get(), encoded.get(), base64_bytes(size));
  TD_ASSERT(bytes == size && (size == 0 || std::memcmp(again.get(), input.get(), size) == 0));
  return 0;
}
