// Any bytes, cut anywhere, to a store with a simulated device that answers requests whole, or locates their keys, and
// to one without: the same replies, byte for byte, and the same counts. Datagrams and raw frames to both: the device's
// reply is the host's, or none.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frames_harness.hpp"

namespace {

// The first bytes choose, the rest is the input.
constexpr std::size_t choice_bytes = 6;

tandem::EngineOptions engine_options() {
  tandem::EngineOptions engine = tandem::codec::ReplyHarness::small_engine();
  engine.device_values = {.bytes = std::uint64_t{8} << 20};  // memory that is to be filled for each input
  return engine;
}

// The reads among the lines, each in a datagram behind the header that it begins with.
void ask_lines(tandem::FramesHarness& harness, std::string_view input) {
  std::vector<std::string> datagrams;
  for (std::size_t at = 0; at < input.size() && datagrams.size() < 500;) {
    const std::size_t end = std::min(input.find('\n', at), input.size() - 1) + 1;
    datagrams.push_back(std::string("\1\n\0\0\0\1\0\0", 8).append(input.substr(at, end - at)));
    at = end;
  }
  const std::vector<std::string> replies = harness.ask(datagrams);
  for (std::size_t i = 0; i < datagrams.size(); ++i) {
    if (replies[i].empty()) continue;
    const std::string host = harness.ask_host(std::string_view(datagrams[i]).substr(8));
    TD_ASSERT(replies[i] == std::string("\1\n\0\0\0\1\0\0", 8) + host);
  }
}

// The same in raw frames, a byte of which is changed; the checksums of every second one are right again.
void ask_frames(tandem::FramesHarness& harness, std::string_view input, const std::uint8_t* choice) {
  std::vector<std::string> frames;
  for (std::size_t at = 0; at < input.size() && frames.size() < 200;) {
    const std::size_t end = std::min(input.find('\n', at), input.size() - 1) + 1, i = frames.size();
    std::string frame = tandem::ethernet::frame_of(
        std::string("\1\n\0\0\0\1\0\0", 8).append(input.substr(at, std::min<std::size_t>(end - at, 600))));
    char& changed = frame[choice[i % 4] * (i / 4 + 1) % frame.size()];
    if (i % 3 != 0) changed = static_cast<char>(changed ^ choice[(i + 1) % 4]);
    if (i % 2 == 0 && tandem::ethernet::big(frame, 38) + 34u <= frame.size()) tandem::ethernet::seal(frame);
    frames.push_back(std::move(frame));
    at = end;
  }
  const std::vector<std::string> replies = harness.ask_raw(frames, choice[0] % 3);
  for (std::size_t i = 0; i < frames.size(); ++i)
    TD_ASSERT(replies[i].empty() || replies[i] == harness.host_frame(frames[i]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < choice_bytes) return 0;
  tandem::ProtocolOptions options;
  options.cas = (data[1] & 1) == 0;
  // Few keys: what the device has to tell may have no room.
  const bool locates = (data[1] & 16) != 0, is_alone = (data[1] & 32) != 0;
  tandem::FramesHarness harness(options, engine_options(), (data[1] & 2) != 0 ? 8 : 256,
                                !locates   ? tandem::plan_frames
                                : is_alone ? tandem::plan_located_index
                                           : tandem::plan_located);
  harness.skip = data[0] % tandem::frame_unit_bytes;
  harness.exchange("set a 0 0 1\r\nA\r\nset b 7 0 2\r\nBB\r\nset aLongKeyOf20Letters 0 5 3\r\nCCC\r\nmn\r\n");
  const std::string_view input(reinterpret_cast<const char*>(data) + choice_bytes, size - choice_bytes);
  // Counts stay the same: the host is asked only what the device has answered.
  if ((data[1] & 4) != 0 && !locates) ask_lines(harness, input);
  if ((data[1] & 8) != 0 && !locates) ask_frames(harness, input, data + 2);
  tandem::codec::require_same_answers(harness, input, std::span(data + 2, 4).first<4>());
  return 0;
}
