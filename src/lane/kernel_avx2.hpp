// x86-64 with AVX2 and AES. Included inside a target region, after kernel_scalar.hpp and index/cuckoo/lanes_avx2.hpp.
// An item's header is loaded with 8 bytes of it at once (lanes_avx2.hpp): its state is that of one moment, and what it
// says to be live was complete before the cell that named it.
#pragma once

namespace tandem::lane {

struct Avx2Kernel : ScalarKernel {
  using Cells = Avx2Lanes;

  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    const __m256i space = _mm256_set1_epi8(' ');
    const auto half = [&](const char* at) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(v, space), v)));
    };
    return half(p) | std::uint64_t{half(p + 32)} << 32;
  }
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const auto* const mask = reinterpret_cast<const __m128i*>(item_masks[std::min(key_bytes, short_key_bytes_max)].key);
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key));
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm_and_si128(v, _mm_load_si128(mask)));
  }
  TD_INLINE static void hash(Strip& strip, std::uint64_t seed) noexcept {
    const __m128i seeds = _mm_set1_epi64x(static_cast<long long>(seed));
    const auto round_key = [&](int i) {
      return _mm_xor_si128(seeds, _mm_loadu_si128(reinterpret_cast<const __m128i*>(short_hash::rounds[i])));
    };
    const __m128i k0 = round_key(0), k1 = round_key(1), k2 = round_key(2), k3 = round_key(3);
    for (std::uint32_t i = 0; i < strip_queries; ++i) {
      __m128i s = _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(strip.key16[i])), k0);
      s = _mm_aesenc_si128(s, _mm_xor_si128(k1, _mm_cvtsi64_si128(info::key_bytes(strip.info[i]))));
      s = _mm_aesenc_si128(_mm_aesenc_si128(s, k2), k3);
      strip.fingerprint[i] = split_hash(static_cast<std::uint64_t>(_mm_cvtsi128_si64(s)));
    }
  }
  TD_INLINE static bool is_usual(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t& state,
                                 std::uint64_t& fixed) noexcept {
    return has(item, key16, usual_state, key_bytes, item_masks[std::min(key_bytes, short_key_bytes_max)], state, fixed);
  }
  TD_INLINE static bool is_rewritable(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t layout,
                                      std::uint64_t& state, std::uint64_t& fixed) noexcept {
    return has(item, key16, static_cast<std::uint64_t>(ItemState::live), layout, set_masks[key_bytes], state, fixed);
  }

 private:
  // Whether the item's first 32 bytes are the two words and the key, where the mask says so.
  TD_INLINE static bool has(const Item* item, const char* key16, std::uint64_t wanted_state, std::uint64_t wanted_fixed,
                            const ItemMask& mask, std::uint64_t& state, std::uint64_t& fixed) noexcept {
    const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(item));
    const __m128i words = _mm_set_epi64x(static_cast<long long>(wanted_fixed), static_cast<long long>(wanted_state));
    const __m256i wanted = _mm256_inserti128_si256(_mm256_castsi128_si256(words),
                                                   _mm_load_si128(reinterpret_cast<const __m128i*>(key16)), 1);
    const __m256i differ = _mm256_xor_si256(v, wanted);
    const __m128i low = _mm256_castsi256_si128(v);
    state = static_cast<std::uint64_t>(_mm_cvtsi128_si64(low));
    fixed = static_cast<std::uint64_t>(_mm_extract_epi64(low, 1));
    return _mm256_testz_si256(differ, _mm256_load_si256(reinterpret_cast<const __m256i*>(&mask))) != 0;
  }
};

}  // namespace tandem::lane
