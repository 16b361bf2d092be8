// `config` in both protocols, over any bytes and cuts: the values that can be read are those of a plain map that takes
// over what was stored, and a list's version never falls but by a delete.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "codec/config_lines.hpp"
#include "codec/config_packets.hpp"
#include "codec/protocol.hpp"
#include "codec/reply.hpp"

namespace {

using namespace tandem;  // NOLINT(google-build-using-namespace): a program of its own

class Harness {
 public:
  Harness() { options_.config = ConfigAccess::write; }

  void offer(std::string_view bytes) {
    kept_ += bytes;
    for (bool goes_on = true; goes_on && !closed_;) {
      std::size_t consumed = 0;
      const ParseStop stop = parser_.parse(kept_.data(), kept_.data() + kept_.size(), batch_, consumed);
      for (std::uint32_t i = 0; i < batch_.size(); ++i) execute(batch_.query(i));
      batch_.clear();
      kept_.erase(0, consumed);
      closed_ = stop != ParseStop::need_more && stop != ParseStop::batch_full;
      goes_on = stop == ParseStop::batch_full;
    }
  }

 private:
  void execute(const Query& q) {
    const bool text = codec::reply_of(q) == codec::ReplyKind::config;
    if (!text && codec::reply_of(q) != codec::ReplyKind::binary_config) return;
    const std::string key(q.key_view());
    const std::uint64_t version = store_.version();
    text ? codec::execute_config_line(q, store_, out_) : codec::execute_config_packet(q, store_, out_);
    out_.clear();
    std::string now;
    const bool found = store_.get(key, [&now](const ConfigStore::Value& value) { now = value.bytes; });
    switch (static_cast<ConfigAction>(q.delta)) {
      case ConfigAction::set:
        if (found && now == std::string_view(q.value, q.value_bytes)) model_[key] = now;
        TD_ASSERT(store_.version() >= version);
        break;
      case ConfigAction::remove:
        model_.erase(key);
        TD_ASSERT(!found);
        break;
      default:
        TD_ASSERT(store_.version() == version);
    }
    const auto expected = model_.find(key);
    TD_ASSERT(found == (expected != model_.end()));
    TD_ASSERT(!found || now == expected->second);
    TD_ASSERT(store_.size() == model_.size() && model_.size() <= ConfigStore::values_max);
  }

  ProtocolOptions options_;
  Clock clock_;
  Parser parser_{options_, clock_};
  Batch batch_{16};
  ConfigStore store_;
  Output out_;
  std::map<std::string, std::string> model_;
  std::string kept_;
  bool closed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = std::min<std::size_t>(data[0], input.size());
  Harness harness;
  harness.offer(input.substr(0, cut));
  harness.offer(input.substr(cut));
  return 0;
}
