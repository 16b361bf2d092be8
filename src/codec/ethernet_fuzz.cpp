// Any bytes as a frame, which is read as code without tricks reads it; a frame that is a request has a reply that is
// the builder's, and is a frame without fault itself.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/platform.hpp"
#include "codec/ethernet.hpp"
#include "codec/ethernet_builder.hpp"

namespace {

using namespace tandem::ethernet;

// The payload of a frame that is taken, by its headers' definitions alone.
bool is_request(std::string_view frame, std::size_t& payload_bytes) {
  if (frame.size() < 42 || frame.substr(12, 3) != std::string_view("\x08\x00\x45", 3)) return false;
  const std::size_t ip_bytes = big(frame, 16), udp_bytes = big(frame, 38);
  if (ip_bytes + 14 > frame.size() || udp_bytes < 8 || udp_bytes + 20 > ip_bytes) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(frame[i]); };
  if ((big(frame, 20) & 0x3fff) != 0 || byte(23) != 17 || rfc_1071_sum(frame.substr(14, 20)) != 0xffff) return false;
  if ((byte(0) & 1) != 0 || (byte(6) & 1) != 0 || byte(26) >= 224 || byte(30) >= 224 || byte(26) == 0) return false;
  payload_bytes = udp_bytes - 8;
  return big(frame, 34) != 0 && (big(frame, 40) == 0 || udp_sum(frame) == 0xffff);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // Its first byte says which sums are made right, so that mutations get past them.
  const bool sealed = (data[0] & 1) != 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (sealed && bytes.size() >= 42 && big(bytes, 38) + std::size_t{34} <= bytes.size()) seal(bytes);
  const std::unique_ptr<char[]> frame(new char[bytes.size()]);
  std::memcpy(frame.get(), bytes.data(), bytes.size());
  const Udp udp = read_frame(frame.get(), static_cast<std::uint32_t>(bytes.size()));
  std::size_t payload_bytes = 0;
  const bool taken = is_request(bytes, payload_bytes);
  TD_ASSERT(taken == (udp.fault == Fault::none));
  TD_ASSERT(udp.payload_bytes == (taken ? payload_bytes : 0));
  if (!taken || payload_bytes > payload_bytes_max) return 0;
  const std::string payload = bytes.substr(42, payload_bytes);
  std::string reply = std::string(42, 'x') + payload;
  write_reply_headers(frame.get(), udp.payload_bytes, reply.data());
  write_udp_sum(reply.data(), udp.payload_bytes);
  TD_ASSERT(reply == reply_frame(bytes, payload));
  return 0;
}
