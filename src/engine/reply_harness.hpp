// For tests: one connection to its own store. Input is requests, output is the bytes of the replies.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "codec/protocol.hpp"
#include "codec/reply.hpp"
#include "codec/reply_writer.hpp"
#include "engine/engine.hpp"
#include "task/one_by_one.hpp"

namespace tandem::codec {

class ReplyHarness : private ResultSink, private ServerControl, private Administration {
 public:
  static constexpr std::uint32_t start_s = 1000;

  explicit ReplyHarness(const ProtocolOptions& options = {}, const EngineOptions& engine_options = small_engine())
      : options_(options),
        engine_(engine_options),
        context_(engine_.make_context()),
        one_by_one_(*context_),
        parser_(options_, engine_.shared().clock),
        batch_(64) {
    set_time(start_s);
  }

  static EngineOptions small_engine() {
    EngineOptions options;
    options.memory_bytes = std::uint64_t{32} << 20;
    options.huge_pages = false;
    options.hash_seed = 1;
    options.crawl = false;  // expired items are found only by requests
    return options;
  }

  void set_time(std::uint32_t now_s) { engine_.shared().clock.freeze_for_test(now_s); }

  std::string exchange(std::string_view bytes) {
    kept_ += bytes;
    while (!closed_) {
      if (filling_ != no_location && !fill()) break;
      if (ahead) kept_.erase(0, ahead(parser_, kept_, out_));
      std::size_t consumed = 0;
      const ParseStop stop = parser_.parse(kept_.data(), kept_.data() + kept_.size(), batch_, consumed);
      run();
      kept_.erase(0, consumed);
      if (stop == ParseStop::need_more) break;
      if (stop == ParseStop::large_value) {
        const LargeValue& large = parser_.large();
        filling_ = engine_.begin_fill(*context_, large.key, large.client_flags, large.value_bytes, large.expiry_s,
                                      large.binary_key);
        if (filling_ != no_location) continue;
        parser_.refuse_large(batch_);
        run();
      }
      closed_ = stop == ParseStop::close || stop == ParseStop::quit;
    }
    return take_output();
  }

  // The same in two parts.
  std::string exchange(std::string_view bytes, std::size_t cut) {
    std::string reply = exchange(bytes.substr(0, cut));
    reply += exchange(bytes.substr(cut));
    return reply;
  }

  // Another client's requests, while `ahead` runs.
  std::string exchange_beside(std::string_view bytes) {
    std::string kept = std::exchange(kept_, {});
    Output out;
    std::swap(out, out_);
    std::string reply = exchange(bytes);
    std::swap(out, out_);
    kept_ = std::move(kept);
    return reply;
  }

  bool closed() const noexcept { return closed_; }
  Engine& engine() noexcept { return engine_; }
  std::uint32_t pinned_values() const noexcept { return pinned_values_; }

  // Offers the input to another implementation first: returns how many of its bytes were answered.
  std::function<std::size_t(Parser&, std::string_view, Output&)> ahead;
  Context& context() noexcept { return *context_; }
  const ProtocolOptions& options() const noexcept { return options_; }
  const ConfigStore& config_store() const noexcept { return config_; }

  std::vector<std::string> calls;  // of ServerControl
  std::string certificate_error = "Error TLS not enabled";

 private:
  bool fill() {
    const LargeValue& large = parser_.large();
    const auto bytes = static_cast<std::size_t>(large.value_bytes);
    const std::size_t end_bytes = large.line_end_bytes;
    if (kept_.size() < bytes + end_bytes) return false;
    const bool ok = end_bytes == 0 || kept_.compare(bytes, end_bytes, "\r\n") == 0;
    std::memcpy(engine_.shared().heap.at(filling_)->value(), kept_.data(), bytes);
    kept_.erase(0, bytes + end_bytes);
    parser_.finish_large(batch_, filling_, ok);
    if (!ok) engine_.abandon_fill(*context_, filling_);
    filling_ = no_location;
    run();
    return true;
  }

  void run() {
    one_by_one_.run(batch_, *this);
    batch_.clear();
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

  void write(Batch& batch, std::uint32_t i) override {
    write_reply(batch.query(i), batch.result(i), {engine_.shared().heap, engine_.shared().clock, options_, out_});
  }
  void control(Batch& batch, std::uint32_t i) override {
    const StreamRequest request = execute_control(batch.query(i), options_, *this, out_);
    if (request.kind == StreamRequest::Kind::none) return;
    std::string classes;
    for (std::size_t c = 0; !request.classes.all() && c < request.classes.size(); ++c) {
      if (request.classes[c]) classes += (classes.empty() ? "" : ",") + std::to_string(c);
    }
    calls.push_back("stream " + std::to_string(static_cast<int>(request.kind)) + " classes " +
                    (request.classes.all() ? "all" : classes) + " items " + std::to_string(request.items_max) +
                    " events " + std::to_string(request.events));
  }

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
  std::string refresh_certificates() override {
    calls.emplace_back("refresh_certs");
    return certificate_error;
  }
  void set_verbosity(unsigned level) override { calls.push_back("verbosity " + std::to_string(level)); }

  Administration& administration() override { return *this; }
  ConfigStore& config() override { return config_; }
  bool reassigns() const override { return true; }
  std::string_view reassign(int from, int to) override {
    calls.push_back("reassign " + std::to_string(from) + " " + std::to_string(to));
    return line::ok;
  }
  void set_automove(unsigned level) override { calls.push_back("automove " + std::to_string(level)); }
  bool set_memory_limit(std::uint64_t bytes) override {
    calls.push_back("memory " + std::to_string(bytes));
    return bytes <= std::uint64_t{1} << 40;
  }
  void set_detail(bool on) override { calls.emplace_back(on ? "detail on" : "detail off"); }
  std::string detail() override { return "PREFIX a get 1 hit 0 set 0 del 0\r\n"; }
  bool tracks_sizes() const override { return tracks_sizes_; }
  void set_track_sizes(bool on) override { tracks_sizes_ = on; }
  bool crawls() const override { return crawls_; }
  bool set_crawls(bool on) override { return std::exchange(crawls_, on) != on; }
  std::string_view crawl(const StreamRequest::Classes& classes) override {
    calls.push_back("crawl " + std::to_string(classes.count()));
    return line::ok;
  }
  void set_crawl_sleep_us(std::uint32_t sleep_us) override { calls.push_back("sleep " + std::to_string(sleep_us)); }
  void set_crawl_items(std::uint32_t items) override { calls.push_back("tocrawl " + std::to_string(items)); }
  void shut_down(bool graceful) override { calls.emplace_back(graceful ? "shutdown graceful" : "shutdown"); }
#ifdef TANDEM_DEBUG_COMMANDS
  void debug_time(DebugTime how, std::int64_t seconds) override {
    calls.push_back("debugtime " + std::to_string(static_cast<int>(how)) + " " + std::to_string(seconds));
  }
  bool debug_item(DebugItem how, std::string_view key, std::uint32_t count) override {
    calls.push_back("debugitem " + std::to_string(static_cast<int>(how)) + " " + std::string(key) + " " +
                    std::to_string(count));
    return key != "none";
  }
#endif

  const ProtocolOptions options_;
  ConfigStore config_;
  bool tracks_sizes_ = false, crawls_ = true;
  Engine engine_;
  Engine::ContextPtr context_;
  OneByOne one_by_one_;
  Parser parser_;
  Batch batch_;
  Output out_;
  std::string kept_;
  Location filling_ = no_location;
  bool closed_ = false;
  std::uint32_t pinned_values_ = 0;
};

struct Exchange {
  std::string_view request, reply;
};

// For fuzzing, with a harness that gives the same input to two stores: input in parts of `part_bytes` bytes in turn,
// with some seconds after every eighth. Stops the program where answers or counts differ.
template <class Harness>
void require_same_answers(Harness& harness, std::string_view input, std::span<const std::uint8_t, 4> part_bytes) {
  std::uint32_t now_s = ReplyHarness::start_s;
  for (std::size_t at = 0, i = 0; at < input.size() && !harness.closed(); ++i) {
    const std::size_t bytes = std::max<std::size_t>(1, part_bytes[i % part_bytes.size()]);
    const auto answers = harness.exchange(input.substr(at, bytes));
    TD_ASSERT(answers.with == answers.without);
    at += bytes;
    if (i % 8 == 7) harness.set_time(now_s += 3);
  }
  const StoreCounters &with = harness.counters_with(), &without = harness.counters_without();
  TD_ASSERT(with.cmd_get.get() == without.cmd_get.get() && with.get_hits.get() == without.get_hits.get() &&
            with.get_misses.get() == without.get_misses.get() && with.cmd_set.get() == without.cmd_set.get() &&
            with.total_items.get() == without.total_items.get());
}

}  // namespace tandem::codec
