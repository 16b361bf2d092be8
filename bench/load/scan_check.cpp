// The reply to mr: items in the order of their keys, and a line that says whether the range goes on (docs/protocol.md).
#include <algorithm>
#include <optional>

#include "bench/load/codecs.hpp"

namespace tandem::load {
namespace {

constexpr std::string_view no_item = "neither VA with a key nor EN";
constexpr std::string_view foreign_key = "a key that is none of the workload's, unless another program set it";
constexpr std::string_view no_order = "a key that is not behind the one before it";
constexpr std::string_view unlike_head = "other flags or another length than what was set";
constexpr std::string_view no_count = "not the number of items";
constexpr std::string_view more_items = "more items than were asked for";
constexpr std::string_view refused_scan = "no scans here: they need Tandem with --ordered or --preset heterokv";

// The keys of a scan's reply, one after the other: their order, and which are missing. Thread safety: none.
class ScanKeys {
 public:
  ScanKeys(const workload::KeySpace& keys, const Request& request)
      : keys_(keys),
        first_(request.key),
        last_key_(last_bytes_, static_cast<std::size_t>(keys.write_key(request.key, last_bytes_) - last_bytes_)) {
    // Behind an inserted key nobody knows which others were inserted.
    const bool knows_all = keys.is_in_order() && first_ < keys.keys();
    end_ = knows_all ? std::min(first_ + request.scan_items, keys.keys()) : first_ + 1;
  }

  // The number of the next key; nullopt: `in` has failed. `key`: bytes that outlive this.
  std::optional<std::uint64_t> next(ReplyCursor& in, std::string_view key, bool may_be_last) {
    const auto number = keys_.number_of(key);
    if (!number) {
      in.fail(foreign_key);
    } else if (key < last_key_ || (key == last_key_ && !may_be_last)) {
      in.fail(no_order);
    } else {
      last_key_ = key;
      return number;
    }
    return std::nullopt;
  }
  void found(std::uint64_t number) noexcept { found_ += number >= first_ && number < end_ ? 1U : 0U; }
  // The range was looked at only up to this key.
  void ends_at(std::uint64_t number) noexcept { end_ = std::min(end_, number + 1); }
  std::uint32_t missing() const noexcept {
    return end_ > first_ + found_ ? static_cast<std::uint32_t>(end_ - first_ - found_) : 0;
  }

 private:
  const workload::KeySpace& keys_;
  const std::uint64_t first_;
  std::uint64_t end_;  // of the numbers that belong into the reply
  std::uint64_t found_ = 0;
  char last_bytes_[workload::key_bytes_max];
  std::string_view last_key_;
};

}  // namespace

ReplyCheck MetaCodec::check_scan(const Request& request, std::string_view data) const {
  ReplyCursor in{data};
  const workload::KeySpace* const keys = contents_.key_space();
  if (keys == nullptr) {
    in.fail(no_scans);
    return in.result(0);
  }
  ScanKeys seen(*keys, request);
  std::uint32_t items = 0;
  for (; in.starts_with('V'); ++items) {
    const Announced said = read_head(in);
    if (in.is_good() && items == request.scan_items) in.fail(more_items);
    if (!in.is_good()) return in.result(0);
    const std::string_view line = in.rest().substr(0, said.head_bytes);
    const std::size_t mark = line.find(" k");
    if (!line.starts_with("VA ") || mark == line.npos) in.fail(no_item);
    if (!in.is_good()) return in.result(0);
    if (!verify_) {
      const workload::Sizes& sizes = keys->value_sizes();
      if (said.value_bytes < sizes.low || said.value_bytes > sizes.high) in.fail(unlike_head);
      in.position += said.head_bytes;
      skip_bytes(in, said.value_bytes);
    } else {
      const auto number = seen.next(in, line.substr(mark + 2, line.size() - mark - 4), items == 0);
      if (!number) return in.result(0);
      Head head;
      const std::uint32_t bytes = contents_.value_bytes(*number);
      if (line != head_of(*number, bytes, true, head)) in.fail(unlike_head);
      if (!in.is_good()) return in.result(0);
      in.position += said.head_bytes;
      take_bytes(in, *number, bytes);
      seen.found(*number);
    }
    if (!in.is_good()) return in.result(0);
  }
  const std::string_view rest = in.rest();
  if (rest.starts_with("ER") || rest.starts_with('C')) {
    in.fail(refused_scan);
    return in.result(0);
  }
  char end[32];
  in.expect("EN n", no_item);
  in.expect({end, static_cast<std::size_t>(put_number(end, items) - end)}, no_count);
  bool is_cut = false;
  if (in.is_good() && !in.starts_with('\r')) {
    in.expect(" m k", no_count);
    const std::string_view tail = in.rest().substr(0, workload::key_bytes_max + 2);
    const std::size_t line_end = tail.find('\r');
    if (in.is_good() && line_end == tail.npos) {
      in.status = ReplyStatus::partial;
      if (tail.size() > workload::key_bytes_max) in.fail(foreign_key);
    }
    if (!in.is_good()) return in.result(0);
    if (verify_) {
      const auto number = seen.next(in, tail.substr(0, line_end), true);
      if (!number) return in.result(0);
      if (items < request.scan_items) seen.ends_at(*number);
    }
    in.position += line_end;
    is_cut = items < request.scan_items;
  }
  in.expect("\r\n", "no line end");
  if (!in.is_good()) return in.result(0);
  ReplyCheck checked = in.result(items);
  checked.missing_keys = verify_ ? seen.missing() : 0;
  checked.is_cut = is_cut;
  return checked;
}

}  // namespace tandem::load
