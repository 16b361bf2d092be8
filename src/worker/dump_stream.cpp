#include "worker/dump_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codec/base64.hpp"
#include "codec/url_encode.hpp"
#include "net/limits.hpp"

namespace tandem::net {
namespace {

// A line of a dump is at most so long: a key of 250 bytes, each as %XX, and numbers.
constexpr std::size_t line_bytes_max = 1024;
constexpr std::uint64_t cachedump_bytes_max = std::uint64_t{2} << 20;  // memcached's
constexpr std::uint64_t size_step_bytes = 32;                          // of `stats sizes`, memcached's

template <class... Args>
void append_format(Output& out, fmt::format_string<Args...> format, Args&&... args) {
  char* const to = out.reserve(line_bytes_max);
  char* const end = fmt::format_to_n(to, line_bytes_max, format, std::forward<Args>(args)...).out;
  out.commit(static_cast<std::size_t>(end - to));
}

unsigned class_number_at(const Heap& heap, Location l) noexcept {
  const SizeClass c = heap.class_of(l);
  return (c == huge_class ? heap.class_count() : c) + 1;
}

bool has_control(std::string_view key) noexcept {
  return std::ranges::any_of(key, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
}

// Unix time of a second of the store's clock.
std::int64_t unix_s(const Clock& clock, std::uint32_t second) noexcept {
  return clock.unix_s() - clock.now_s() + second;
}

class KeyDump : public HeapWalk {
 public:
  KeyDump(const StreamRequest& request, DumpPlace& place) noexcept : HeapWalk(request.classes), place_(place) {}
  ~KeyDump() override { place_.leave(this); }
  KeyDump(const KeyDump&) = delete;
  KeyDump& operator=(const KeyDump&) = delete;

 protected:
  void begin_piece(const Context& context) final { place_.progress(this, context.shared.clock.now_s()); }

 private:
  DumpPlace& place_;
};

class Metadump final : public KeyDump {
 public:
  using KeyDump::KeyDump;

 private:
  void item(const Context& context, Location l, const Item* item, const ItemVersion& seen, Output& out) override {
    const Heap& heap = context.shared.heap;
    const Clock& clock = context.shared.clock;
    char key[3 * key_bytes_max];
    const char* const key_end = codec::url_encode(item->key(), key);
    const std::uint32_t expiry_s = Item::expiry_of(seen.state), now_s = clock.now_s();
    // The header has 15 bits of the second.
    const auto idle_s = static_cast<std::uint32_t>((now_s - word::AccessS::get(seen.state)) & word::AccessS::limit);
    append_format(out, "key={} exp={} la={} cas={} fetch={} cls={} size={}\n",
                  std::string_view(key, static_cast<std::size_t>(key_end - key)),
                  expiry_s == Clock::never ? -1 : unix_s(clock, expiry_s), clock.unix_s() - std::min(idle_s, now_s),
                  context.shared.policy.cas ? seen.cas() : 0, word::Fetched::get(seen.state) != 0 ? "yes" : "no",
                  class_number_at(heap, l), heap.total_bytes(item));
  }
  void end(Output& out) override { out.append("END\r\n"); }
};

class Mgdump final : public KeyDump {
 public:
  using KeyDump::KeyDump;

 private:
  void item(const Context&, Location, const Item* item, const ItemVersion&, Output& out) override {
    out.append("mg ");
    // Control characters in a key (of a binary client) would be read as line ends.
    if (item->binary_key() || has_control(item->key())) {
      const std::string_view key = item->key();
      const std::size_t bytes = codec::base64_bytes(key.size());
      codec::base64_encode(out.reserve(bytes), item->bytes() + item->key_offset(), key.size());
      out.commit(bytes);
      out.append(" b\r\n");
    } else {
      out.append(item->key());
      out.append("\r\n");
    }
  }
  void end(Output& out) override { out.append("EN\r\n"); }
};

class Cachedump final : public HeapWalk {
 public:
  explicit Cachedump(const StreamRequest& request) noexcept
      : HeapWalk(request.classes), items_left_(request.items_max == 0 ? UINT32_MAX : request.items_max) {}

 private:
  void item(const Context& context, Location, const Item* item, const ItemVersion& seen, Output& out) override {
    if (items_left_ == 0) return;
    const std::size_t before = out.size();
    const std::uint32_t expiry_s = Item::expiry_of(seen.state);
    append_format(out, "ITEM {} [{} b; {} s]\r\n", item->key(), context.shared.heap.value_bytes(item),
                  expiry_s == Clock::never ? 0 : unix_s(context.shared.clock, expiry_s));
    const std::size_t bytes = out.size() - before;
    if (bytes > bytes_left_) {
      out.truncate(before, 0);
      items_left_ = 0;
      return;
    }
    bytes_left_ -= bytes;
    --items_left_;
  }
  void end(Output& out) override { out.append("END\r\n"); }
  bool enough() const noexcept override { return items_left_ == 0; }

  std::uint32_t items_left_;
  std::uint64_t bytes_left_ = cachedump_bytes_max;
};

class Sizes final : public HeapWalk {
 public:
  Sizes() noexcept : HeapWalk(StreamRequest::Classes().set()) {}

 private:
  void item(const Context& context, Location, const Item* item, const ItemVersion&, Output&) override {
    ++counts_[(context.shared.heap.total_bytes(item) + size_step_bytes - 1) / size_step_bytes * size_step_bytes];
  }
  void end(Output& out) override {
    for (const auto& [bytes, count] : counts_) append_format(out, "STAT {} {}\r\n", bytes, count);
    out.append("END\r\n");
  }

  std::map<std::uint64_t, std::uint64_t> counts_;
};

}  // namespace

bool DumpPlace::take(const void* dump, std::uint32_t now_s) noexcept {
  const void* owner = dump_.load(std::memory_order_relaxed);
  const bool is_stalled = now_s - progress_s_.load(std::memory_order_relaxed) >= dump_stall_s;
  if (owner != nullptr && !is_stalled) return false;
  if (!dump_.compare_exchange_strong(owner, dump, std::memory_order_relaxed)) return false;
  progress_s_.store(now_s, std::memory_order_relaxed);
  return true;
}

void DumpPlace::progress(const void* dump, std::uint32_t now_s) noexcept {
  if (dump_.load(std::memory_order_relaxed) == dump) progress_s_.store(now_s, std::memory_order_relaxed);
}

void DumpPlace::leave(const void* dump) noexcept {
  dump_.compare_exchange_strong(dump, nullptr, std::memory_order_relaxed);
}

Stream::Step HeapWalk::produce(Context& context, Output& out) {
  const Heap& heap = context.shared.heap;
  const std::uint32_t now_s = context.shared.clock.now_s();
  const std::size_t out_end = out.size() + stream_piece_bytes;
  begin_piece(context);
  context.epoch.enter();
  const std::uint64_t flush_cas = context.shared.flush_cas.load(std::memory_order_acquire);
  std::uint32_t slots = 0;
  while (page_ < heap.page_end() && slots < stream_piece_slots && out.size() < out_end && !enough()) {
    const auto c = heap.items_of_page(page_);
    const unsigned number = c.has_value() ? (*c == huge_class ? heap.class_count() : *c) + 1u : 0;
    if (number == 0 || !classes_[number]) {
      ++page_;
      slot_ = 0;
      ++slots;
      continue;
    }
    constexpr std::uint32_t step = 64;
    slots += step;
    slot_ = heap.visit_slots(page_, slot_, step, [&](Location l, const Item* live) {
      const ItemVersion seen = settled_version(live);
      if (!seen.is_live() || is_over(seen, now_s, flush_cas)) return;
      item(context, l, live, seen, out);
    });
    if (slot_ == 0) ++page_;
  }
  context.epoch.exit();
  if (page_ < heap.page_end() && !enough()) return Step::more;
  end(out);
  return Step::done;
}

std::unique_ptr<Stream> make_dump(const StreamRequest& request, DumpPlace& place, std::uint32_t now_s) {
  using Kind = StreamRequest::Kind;
  if (request.kind == Kind::cachedump) return std::make_unique<Cachedump>(request);
  if (request.kind == Kind::sizes) return std::make_unique<Sizes>();
  std::unique_ptr<Stream> dump;
  if (request.kind == Kind::metadump) {
    dump = std::make_unique<Metadump>(request, place);
  } else {
    dump = std::make_unique<Mgdump>(request, place);
  }
  if (!place.take(dump.get(), now_s)) return nullptr;
  return dump;
}

}  // namespace tandem::net
