// The keys that a device has located in a batch's input, for a reader that goes through the input from front to back.
//
// Thread safety: one thread at a time, while the columns' launch has ended and they are not filled again.
#pragma once
#include <array>
#include <cstdint>

#include "frames/frame_columns.hpp"

namespace tandem {

class LocatedKeys {
 public:
  // Bytes of a text command before its first key, and from its last one to the line's end, by LocatedKey's commands.
  // Those of a set end with the key.
  static constexpr std::array<std::uint8_t, 8> bytes_before_key = {4, 5, 3, 0, 0, 4, 3, 0},
                                               bytes_behind_key = {2, 2, 4, 0, 0, 0, 0, 0};

  // input: the arena of which the columns describe pieces.
  LocatedKeys(const FrameColumns& columns, const char* input) noexcept : columns_(&columns), input_(input) {}

  // Goes to any place of the input, before or behind the present one.
  void go_to(const char* at) noexcept {
    place_ = columns_->place_of(static_cast<std::uint64_t>(at - input_));
    begin_ = at;
    next_ = behind_ = nullptr;
  }
  // Goes forward to where a reader of the requests stands: at the begin of a request or, within a line, at one of its
  // keys. Whether that key was located; then next() is its answer, and more of the same piece follow. REQUIRES: `at`
  // is not before the present place.
  bool find(const char* at, bool in_line) noexcept {
    for (;;) {
      while (next_ != behind_ && position_of(*next_, in_line) < at) ++next_;
      if (next_ != behind_) return position_of(*next_, in_line) == at;
      if (!go_on()) return false;
    }
  }
  // Behind what find() did not find: where the next line with located keys begins, unless it is a part of a value;
  // nullptr: there is none. Also within a line: all keys of a line are located, or none.
  const char* next_line() const noexcept { return next_ != behind_ ? position_of(*next_, false) : nullptr; }

  // The rest of the present piece. Those without LocatedKey::behind_gap stand right behind the one before them, or in
  // the value of a set before them.
  const LocatedKey* next() const noexcept { return next_; }
  const LocatedKey* behind() const noexcept { return behind_; }
  const char* key_of(const LocatedKey& key) const noexcept { return begin_ + key.at; }
  void pass(const LocatedKey* next) noexcept { next_ = next; }

  // Where the key's command begins, if it is the first one of its line.
  static const char* command_of(const char* key, std::uint8_t kind) noexcept {
    return key - bytes_before_key[kind & LocatedKey::command_mask];
  }
  // Where the line of a read ends, if it is the last one.
  const char* end_of(const LocatedKey& key) const noexcept {
    return key_of(key) + key.key_bytes + bytes_behind_key[key.kind & LocatedKey::command_mask];
  }

 private:
  const char* position_of(const LocatedKey& key, bool in_line) const noexcept {
    return in_line ? key_of(key) : command_of(key_of(key), key.kind);
  }
  bool go_on() noexcept {
    const FrameRun* const run = columns_->next_run(place_);
    if (run == nullptr) return false;
    begin_ = input_ + run->begin;
    next_ = reinterpret_cast<const LocatedKey*>(columns_->reply(*run));
    behind_ = next_ + run->keys;
    return true;
  }

  const FrameColumns* columns_;
  const char* input_;
  FrameColumns::Place place_{};
  const char* begin_ = nullptr;  // of the present piece
  const LocatedKey *next_ = nullptr, *behind_ = nullptr;
};

}  // namespace tandem
