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

}  // namespace

// The keys of the items in turn: their order, and which are missing. Thread safety: none.
class MetaCodec::ScanKeys {
 public:
  ScanKeys(const workload::KeySpace& keys, const Request& request)
      : keys_(keys),
        first_(request.key),
        items_max_(request.scan_items),
        last_key_(asked_key_, static_cast<std::size_t>(keys.write_key(request.key, asked_key_) - asked_key_)) {
    // Behind an inserted key it is unknown which other keys were inserted.
    const bool knows_all = keys.is_in_order() && first_ < keys.keys();
    end_ = knows_all ? std::min(first_ + items_max_, keys.keys()) : first_ + 1;
  }
  ScanKeys(const ScanKeys&) = delete;
  ScanKeys& operator=(const ScanKeys&) = delete;

  const workload::KeySpace& keys() const noexcept { return keys_; }
  std::uint32_t items() const noexcept { return items_; }
  bool is_full() const noexcept { return items_ == items_max_; }
  bool is_cut() const noexcept { return is_cut_; }
  std::uint32_t missing() const noexcept {
    return end_ > first_ + found_ ? static_cast<std::uint32_t>(end_ - first_ - found_) : 0;
  }

  // The number of the next item's key; nullopt: `in` has failed. The bytes must outlive this.
  std::optional<std::uint64_t> number_of(ReplyCursor& in, std::string_view key) {
    return number_behind(in, key, items_ == 0);
  }
  void add(std::uint64_t number) noexcept {
    ++items_;
    found_ += number >= first_ && number < end_ ? 1U : 0U;
  }
  void add_unknown() noexcept { ++items_; }
  // The reply ends and the range goes on behind this key.
  void goes_on(ReplyCursor& in, std::string_view key) {
    const auto number = number_behind(in, key, true);
    if (number && !is_full()) end_ = std::min(end_, *number + 1);
  }
  void set_cut() noexcept { is_cut_ = !is_full(); }

 private:
  std::optional<std::uint64_t> number_behind(ReplyCursor& in, std::string_view key, bool may_be_last) {
    const auto number = keys_.number_of(key);
    if (!number) {
      in.fail(foreign_key);
      return std::nullopt;
    }
    if (key < last_key_ || (key == last_key_ && !may_be_last)) {
      in.fail(no_order);
      return std::nullopt;
    }
    last_key_ = key;
    return number;
  }

  const workload::KeySpace& keys_;
  const std::uint64_t first_;
  const std::uint32_t items_max_;
  std::uint64_t end_;  // of the numbers that belong into the reply
  std::uint64_t found_ = 0;
  std::uint32_t items_ = 0;
  bool is_cut_ = false;
  char asked_key_[workload::key_bytes_max];
  std::string_view last_key_;
};

// "VA n kKEY\r\n", n bytes, "\r\n".
void MetaCodec::take_item(ReplyCursor& in, ScanKeys& seen) const {
  const Announced said = read_head(in);
  if (!in.is_good()) return;
  if (seen.is_full()) return in.fail(more_items);
  const std::string_view line = in.rest().substr(0, said.head_bytes);
  const std::size_t mark = line.find(" k");
  if (!line.starts_with("VA ") || mark == line.npos) return in.fail(no_item);
  if (!verify_) {
    const workload::Sizes& sizes = seen.keys().value_sizes();
    if (said.value_bytes < sizes.low || said.value_bytes > sizes.high) return in.fail(unlike_head);
    in.position += said.head_bytes;
    skip_bytes(in, said.value_bytes);
    return seen.add_unknown();
  }
  const auto number = seen.number_of(in, line.substr(mark + 2, line.size() - mark - 4));
  if (!number) return;
  Head head;
  const std::uint32_t bytes = contents_.value_bytes(*number);
  if (line != head_of(*number, bytes, true, head)) return in.fail(unlike_head);
  in.position += said.head_bytes;
  take_bytes(in, *number, bytes);
  seen.add(*number);
}

// "EN nITEMS\r\n", or "EN nITEMS m kLAST\r\n" if the range goes on behind LAST.
void MetaCodec::take_scan_end(ReplyCursor& in, ScanKeys& seen) const {
  if (in.rest().starts_with("ER") || in.rest().starts_with('C')) return in.fail(refused_scan);
  char digits[20];
  in.expect("EN n", no_item);
  in.expect({digits, static_cast<std::size_t>(put_number(digits, seen.items()) - digits)}, no_count);
  if (in.is_good() && !in.starts_with('\r')) {
    in.expect(" m k", no_count);
    if (!in.is_good()) return;
    const std::string_view tail = in.rest().substr(0, workload::key_bytes_max + 1);
    const std::size_t key_bytes = tail.find('\r');
    if (key_bytes == tail.npos) {
      if (tail.size() > workload::key_bytes_max) return in.fail(foreign_key);
      in.status = ReplyStatus::partial;
      return;
    }
    if (verify_) seen.goes_on(in, tail.substr(0, key_bytes));
    if (!in.is_good()) return;
    seen.set_cut();
    in.position += key_bytes;
  }
  in.expect("\r\n", "no line end");
}

ReplyCheck MetaCodec::check_scan(const Request& request, std::string_view data) const {
  ReplyCursor in{data};
  const workload::KeySpace* const keys = contents_.key_space();
  if (keys == nullptr) {
    in.fail(no_scans);
    return in.result(0);
  }
  ScanKeys seen(*keys, request);
  std::size_t item_at = 0, wrong_value_at = 0;
  while (in.is_good() && in.starts_with('V')) {
    const bool was_right = !in.has_wrong_value;
    item_at = in.position;
    take_item(in, seen);
    if (was_right && in.has_wrong_value) wrong_value_at = item_at;
  }
  if (in.is_good()) {
    item_at = in.position;
    take_scan_end(in, seen);
  }
  ReplyCheck checked = in.result(seen.items());
  checked.fault_at = checked.status == ReplyStatus::wrong_value ? wrong_value_at : item_at;
  if (!in.is_good()) return checked;
  checked.missing_keys = verify_ ? seen.missing() : 0;
  checked.is_cut = seen.is_cut();
  return checked;
}

}  // namespace tandem::load
