// Arranges small items by the order of their keys, so that a scan reads memory upwards: of items that lie anywhere it
// waits for one line after the other; of those that lie side by side the processor fetches the next ones by itself.
// They stay ordinary items: an arranged one is a copy in another slot of its class, published under its key's stripe
// with the same CAS id and times (rescue-inl.hpp).
//
// HeteroKV's values have 4 bytes and lie in the leaves (III-D), so the paper has nothing of the kind.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "heap/page.hpp"
#include "index/scan.hpp"
#include "task/context.hpp"

namespace tandem::task {

// Slots of larger items are not arranged: their bytes are most of what a scan fetches, wherever they lie.
inline constexpr std::uint32_t arranged_slot_bytes_max = 128;
// So many items that are in order stay where they are.
inline constexpr std::uint32_t arranged_run_min = 16;

// Notes the range of a scan in context.shared.scattered, if a quarter of its small items do not lie just behind the one
// before. REQUIRES: the epoch of the copies.
void note_if_scattered(Context& context, const ScanCopies& copies, std::uint32_t count, bool reverse) noexcept;

// Arranges one range at a time, a few items at once, so that scans get through in between: each item that moves changes
// its leaf. Thread safety: the context's thread. REQUIRES of all members: the context is in no epoch, and the index is
// ordered.
class RangeArranger {
 public:
  explicit RangeArranger(Context& context);
  ~RangeArranger() { give_row_back(); }
  RangeArranger(const RangeArranger&) = delete;
  RangeArranger& operator=(const RangeArranger&) = delete;

  // Chooses what to move of the range's first `items` items, which are made a whole number of rows, scan_items_max at
  // most. Returns the key to go on behind, valid until the next call; nothing: the range ends.
  std::optional<std::string_view> begin(const ScanRange& range, std::uint32_t items);
  // Moves items for about so many nanoseconds, at least one. False: none is left to move, or there is no row of slots
  // for them. Where the class has many free slots, as those that were left by items that have moved, and where the
  // budget has no page, a page is emptied: its items go to other slots. A class of 64 pages or more then evicts as many
  // items as it has slots too few for that.
  bool go_on(std::uint64_t ns) noexcept;
  std::uint64_t moved() const noexcept { return moved_; }  // items, since the start
  // Whether no class of the last range has found a row.
  bool is_out_of_rows() const noexcept { return no_row_ && moved_ == moved_before_; }

 private:
  struct Place {
    SizeClass size_class;
    std::uint16_t number;  // of the key in the range
    Location location;
    auto operator<=>(const Place&) const = default;
  };

  void choose(const ScanCopies& copies);
  void choose_of_class(std::span<const Place> of);
  bool take_row() noexcept;
  bool find_row(SizeClass c) noexcept;
  bool has_page_free(SizeClass c) noexcept;
  bool has_many_free(SizeClass c) const noexcept;
  void move_next() noexcept;
  void give_row_back() noexcept;

  Context& context_;
  std::vector<Place> small_;   // of the range, class by class, in the order of their keys
  std::vector<Place> places_;  // of those that are to be moved
  std::size_t next_ = 0;       // of places_
  std::array<Location, row_slots> row_;
  std::uint32_t row_next_ = 0, row_end_ = 0;
  std::uint64_t moved_ = 0, moved_before_ = 0;  // the last range
  bool no_row_ = false;
  std::uint8_t last_bytes_ = 0;
  std::array<char, key_bytes_max> last_;
};

// Arranges all keys now, in the caller's thread. Returns the number of items that it moved. REQUIRES: as RangeArranger.
// Throws std::bad_alloc.
std::uint64_t arrange_all(Context& context);

}  // namespace tandem::task
