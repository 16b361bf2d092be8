// The ends of words in a line. A part of lane-inl.hpp, inside its namespace.

// Finds the ends of words, 64 bytes at a time: spaces and control characters. The last byte of the input is never
// reported, so that at least one byte follows each end.
struct Words {
  const char* block;
  std::uint64_t blanks;  // bit i: block[i]
  std::uint64_t ahead;   // the same from the next command on
  const char* const begin;
  const char* const end;

  TD_INLINE Words(const char* p, const char* b, const char* e) noexcept : begin(b), end(e) { look(p); }
  // The first blank from `p` on; `end`: there is none. REQUIRES: p is behind the last one found.
  TD_INLINE const char* end_of(const char* p) noexcept {
    const auto offset = static_cast<std::size_t>(p - block);
    if (TD_LIKELY(offset < 64)) {
      const std::uint64_t found = blanks >> offset;
      if (TD_LIKELY(found != 0)) return p + std::countr_zero(found);
    }
    if (TD_UNLIKELY(p >= end)) return end;
    look(p);
    if (TD_LIKELY(blanks != 0)) return p + std::countr_zero(blanks);
    return codec::find_delimiter(p, end, begin);
  }
  // The next command begins at `p`.
  TD_INLINE void go_to(const char* p) noexcept {
    const auto offset = static_cast<std::size_t>(p - block);
    if (TD_UNLIKELY(offset >= 64)) return look(p);
    ahead = blanks >> offset << offset;
  }
  // As go_to() behind the command's remaining `Count` blanks.
  template <int Count>
  TD_INLINE void pass(std::uint64_t behind) noexcept {
    for (int i = 0; i < Count; ++i) behind &= behind - 1;
    ahead = behind;
  }
  // The block's blanks behind the one that ends the word at `p`, where a command begins; 0: the block has no other one.
  TD_INLINE std::uint64_t behind_word(const char* p) noexcept {
    std::uint64_t behind = ahead & (ahead - 1);
    if (TD_LIKELY(behind != 0)) return behind;
    look(p);
    return ahead & (ahead - 1);
  }

  // end_of(key), where the key follows the word at `p`.
  TD_INLINE const char* end_of_next(const char* p, const char* key) noexcept {
    const std::uint64_t behind = behind_word(p);
    return TD_LIKELY(behind != 0) ? block + std::countr_zero(behind) : end_of(key);
  }

 private:
  TD_INLINE void look(const char* p) noexcept {
    block = p;
    blanks = K::blanks(p);
    const std::ptrdiff_t left = end - p;
    if (TD_UNLIKELY(left <= 64)) blanks &= left > 1 ? ~std::uint64_t{0} >> (65 - left) : 0;
    ahead = blanks;
  }
};
