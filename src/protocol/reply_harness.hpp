// For tests: one connection to a store of its own. What goes in are requests, what comes out are the bytes of the
// replies.
#pragma once
#include <cstring>
#include <string>
#include <string_view>

#include "pipeline/executor.hpp"
#include "protocol/protocol.hpp"
#include "store/engine.hpp"

namespace tandem::protocol {

class ReplyHarness : private ResponseWriter, private ServerControl {
 public:
  static constexpr std::uint32_t start_s = 1000;

  explicit ReplyHarness(const ProtocolOptions& options = {}, const EngineOptions& engine_options = small_engine())
      : options_(options),
        engine_(engine_options),
        context_(engine_.make_context()),
        executor_(*context_),
        parser_(options_, engine_.shared().clock),
        batch_(64) {
    set_time(start_s);
  }

  static EngineOptions small_engine() {
    EngineOptions options;
    options.memory_bytes = std::uint64_t{32} << 20;
    options.huge_pages = false;
    options.hash_seed = 1;
    return options;
  }

  void set_time(std::uint32_t now_s) { engine_.shared().clock.freeze_for_test(now_s); }

  std::string exchange(std::string_view bytes) {
    kept_ += bytes;
    while (!closed_) {
      if (filling_ != no_location && !fill()) break;
      std::size_t consumed = 0;
      const ParseStop stop = parser_.parse(kept_.data(), kept_.data() + kept_.size(), batch_, scratch_, 0, consumed);
      run();
      kept_.erase(0, consumed);
      if (stop == ParseStop::need_more) break;
      if (stop == ParseStop::large_value) {
        const LargeValue& large = parser_.large();
        filling_ = engine_.begin_fill(*context_, large.key, large.client_flags, large.value_bytes, large.expiry_s,
                                      large.binary_key);
        if (filling_ != no_location) continue;
        parser_.refuse_large(batch_, 0);
        run();
      }
      closed_ = stop == ParseStop::close;
    }
    return take_output();
  }

  // The same in two parts.
  std::string exchange(std::string_view bytes, std::size_t cut) {
    std::string reply = exchange(bytes.substr(0, cut));
    reply += exchange(bytes.substr(cut));
    return reply;
  }

  bool closed() const noexcept { return closed_; }
  Engine& engine() noexcept { return engine_; }
  std::uint32_t pinned_values() const noexcept { return pinned_values_; }

  std::vector<std::string> calls;  // of ServerControl

 private:
  bool fill() {
    const LargeValue& large = parser_.large();
    const auto bytes = static_cast<std::size_t>(large.value_bytes);
    const std::size_t end_bytes = large.line_end_bytes;
    if (kept_.size() < bytes + end_bytes) return false;
    const bool ok = end_bytes == 0 || kept_.compare(bytes, end_bytes, "\r\n") == 0;
    std::memcpy(engine_.shared().heap.at(filling_)->value(), kept_.data(), bytes);
    kept_.erase(0, bytes + end_bytes);
    parser_.finish_large(batch_, 0, filling_, ok);
    if (!ok) engine_.abandon_fill(*context_, filling_);
    filling_ = no_location;
    run();
    return true;
  }

  void run() {
    executor_.run(batch_, *this);
    batch_.clear();
    scratch_.clear();
  }

  std::string take_output() {
    std::string text;
    std::size_t at = 0;
    for (const Output::Segment& segment : out_.externals()) {
      text.append(out_.data() + at, segment.offset - at);
      text.append(segment.external, segment.bytes);
      at = segment.offset;
      engine_.shared().heap.unpin(segment.pin);
      ++pinned_values_;
    }
    if (out_.size() != at) text.append(out_.data() + at, out_.size() - at);
    out_.clear();
    return text;
  }

  bool write(Batch& batch, Strip strip) override {
    write_replies(batch, strip.begin, strip.end, engine_.shared().heap, engine_.shared().clock, options_, out_);
    return true;
  }
  void control(Batch& batch, std::uint32_t i) override { execute_control(batch.query(i), *this, out_); }

  void flush_all(std::uint32_t at_s) override {
    calls.push_back("flush_all " + std::to_string(at_s));
    engine_.flush_all(at_s);
  }
  bool stats(std::string_view group, StatSink& sink) override {
    calls.push_back("stats " + std::string(group));
    if (group == "nosuch") return false;
    if (group != "items") sink.stat("name", "value");
    return true;
  }
  void set_verbosity(unsigned level) override { calls.push_back("verbosity " + std::to_string(level)); }

  const ProtocolOptions options_;
  Engine engine_;
  Engine::ContextPtr context_;
  Executor executor_;
  Parser parser_;
  Batch batch_;
  Scratch scratch_;
  Output out_;
  std::string kept_;
  Location filling_ = no_location;
  bool closed_ = false;
  std::uint32_t pinned_values_ = 0;
};

struct Exchange {
  std::string_view request, reply;
};

}  // namespace tandem::protocol
