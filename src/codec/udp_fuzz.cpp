// Datagrams as the server reads them: a frame, then requests, each datagram with a parser of its own. An incomplete
// request at the end of a cut datagram is dropped: it makes no query and changes none before it.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/parse_harness.hpp"
#include "codec/udp.hpp"

namespace {

using namespace tandem;

struct Parsed {
  std::vector<std::string> queries;
  std::size_t consumed = 0;
  ParseStop stop = ParseStop::need_more;
};

// As Worker::parse_datagram(), with a batch for as many commands as a datagram may have.
Parsed parse(std::string_view payload) {
  static const ProtocolOptions options;
  static Clock clock;
  clock.freeze_for_test(1000);
  const std::unique_ptr<char[]> exact(new char[payload.size()]);
  std::memcpy(exact.get(), payload.data(), payload.size());
  Parser parser(options, clock);
  Batch batch(static_cast<std::uint32_t>(payload.size() + 1));
  Parsed parsed;
  parsed.stop = parser.parse(exact.get(), exact.get() + payload.size(), batch, parsed.consumed);
  TD_ASSERT(parsed.stop != ParseStop::batch_full);  // no query takes less than a byte
  TD_ASSERT(parsed.consumed <= payload.size());
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    const Query& q = batch.query(i);
    parsed.queries.push_back(
        codec::text_of(q, q.opcode == Opcode::store ? std::string_view(q.value, q.value_bytes) : std::string_view{}));
  }
  return parsed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::unique_ptr<char[]> datagram(new char[size]);
  std::memcpy(datagram.get(), data, size);
  UdpFrame frame{};
  if (!read_udp_frame(datagram.get(), size, frame)) {
    TD_ASSERT(size <= udp_frame_bytes || data[4] != 0 || data[5] != 1);
    return 0;
  }
  TD_ASSERT(size > udp_frame_bytes && frame.total == 1);

  char out[udp_frame_bytes];
  write_udp_frame(frame, out);
  UdpFrame again{};
  char with_payload[udp_frame_bytes + 1];
  std::memcpy(with_payload, out, sizeof out);
  with_payload[udp_frame_bytes] = 'x';
  TD_ASSERT(read_udp_frame(with_payload, sizeof with_payload, again));
  TD_ASSERT(again.request_id == frame.request_id && again.sequence == frame.sequence && again.total == frame.total);

  const std::string_view payload(datagram.get() + udp_frame_bytes, size - udp_frame_bytes);
  const Parsed whole = parse(payload);
  const Parsed complete = parse(payload.substr(0, whole.consumed));
  TD_ASSERT(complete.queries == whole.queries && complete.consumed == whole.consumed);
  // A command of text is complete with a line end.
  if (payload.size() < ProtocolOptions{}.line_bytes_max && payload[0] != '\x80')
    TD_ASSERT(parse(payload.substr(0, payload.find('\n'))).queries.empty());
  // The datagram, cut where the sequence number says, gives the queries that are complete in it. Whether a line is too
  // long depends on how much of it has arrived.
  const Parsed cut = parse(payload.substr(0, frame.sequence % payload.size()));
  TD_ASSERT(cut.queries.size() <= whole.queries.size());
  if (payload.size() < ProtocolOptions{}.line_bytes_max)
    TD_ASSERT(std::equal(cut.queries.begin(), cut.queries.end(), whole.queries.begin()));
  return 0;
}
