// x86-64 with AVX2 and AES. Included inside a target region, after kernel_scalar.hpp and index/cuckoo/lanes_avx2.hpp.
#pragma once

namespace tandem::lane {

struct Avx2Kernel : ScalarKernel {
  using Tags = Avx2TagLanes;
  using Slabs = Avx2SlabLanes;

  TD_INLINE static Cell cell_of(const Bucket* bucket, std::uint32_t signature) noexcept {
    const Avx2Lanes l{};
    const auto v = l.load(bucket);
    return l.take(bucket, v, first_of(l.match(v, signature)));
  }
  TD_INLINE static std::uint64_t blanks(const char* p) noexcept {
    const __m256i space = _mm256_set1_epi8(' ');
    const auto half = [&](const char* at) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
      return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(v, space), v)));
    };
    return half(p) | std::uint64_t{half(p + 32)} << 32;
  }
  TD_INLINE static void load_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    load_short_key(to, key, std::min(key_bytes, short_key_bytes_max));
  }
  TD_INLINE static void load_short_key(char* to, const char* key, std::size_t key_bytes) noexcept {
    const auto* const mask = reinterpret_cast<const __m128i*>(item_masks[key_bytes].key);
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key));
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm_and_si128(v, _mm_load_si128(mask)));
  }
  TD_INLINE static void hash(Strip& strip, std::uint64_t seed) noexcept { hash_first(strip, strip_queries, seed); }
  TD_INLINE static void hash_first(Strip& strip, std::uint32_t count, std::uint64_t seed) noexcept {
    const __m128i seeds = _mm_set1_epi64x(static_cast<long long>(seed));
    const auto round_key = [&](int i) {
      return _mm_xor_si128(seeds, _mm_loadu_si128(reinterpret_cast<const __m128i*>(short_hash::rounds[i])));
    };
    const __m128i k0 = round_key(0), k1 = round_key(1), k2 = round_key(2), k3 = round_key(3);
    for (std::uint32_t i = 0; i < count; ++i) {
      __m128i s = _mm_xor_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(strip.key16[i])), k0);
      s = _mm_aesenc_si128(s, _mm_xor_si128(k1, _mm_cvtsi64_si128(info::key_bytes(strip.info[i]))));
      s = _mm_aesenc_si128(_mm_aesenc_si128(s, k2), k3);
      strip.fingerprint[i] = split_hash(static_cast<std::uint64_t>(_mm_cvtsi128_si64(s)));
    }
  }
  TD_INLINE static std::uint32_t same_cells(const Bucket* bucket, Cell cell) noexcept {
    const auto* const halves = reinterpret_cast<const __m256i*>(bucket);
    const auto four = [wanted = _mm256_set1_epi64x(static_cast<long long>(cell.bits))](const __m256i* half) {
      const __m256i same = _mm256_cmpeq_epi64(_mm256_load_si256(half), wanted);
      return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(same)));
    };
    return four(halves) | four(halves + 1) << 4;
  }
  TD_INLINE static void find_buckets(Strip& strip, const IndexView& view) noexcept { find_buckets_by<4>(strip, view); }
  TD_INLINE static std::uint32_t below_in(const std::int32_t* block, std::int32_t head) noexcept {
    const auto eight = [wanted = _mm256_set1_epi32(head)](const std::int32_t* at) {
      const __m256i below = _mm256_cmpgt_epi32(wanted, _mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
      return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(below)));
    };
    return static_cast<std::uint32_t>(std::popcount(eight(block) | eight(block + 8) << 8));
  }
  TD_INLINE static std::uint32_t without_item(const Strip& strip) noexcept {
    const __m256i none = _mm256_set1_epi64x(reinterpret_cast<long long>(&no_item.header));
    const auto four = [&](std::uint32_t i) {
      const __m256i items = _mm256_load_si256(reinterpret_cast<const __m256i*>(strip.item + i));
      return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(items, none))));
    };
    return four(0) | four(4) << 4;
  }
  TD_INLINE static bool is_usual(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t& state,
                                 std::uint64_t& fixed) noexcept {
    const ItemCheck& check = item_checks[key_bytes];
    const __m128i wanted = _mm_load_si128(reinterpret_cast<const __m128i*>(&check.state));
    return has(item, key16, wanted, check.mask, state, fixed);
  }
  TD_INLINE static bool is_rewritable(const Item* item, const char* key16, std::size_t key_bytes, std::uint64_t layout,
                                      std::uint64_t& state, std::uint64_t& fixed) noexcept {
    const __m128i wanted = _mm_set_epi64x(static_cast<long long>(layout), static_cast<long long>(ItemState::live));
    return has(item, key16, wanted, set_masks[key_bytes], state, fixed);
  }

 protected:
  // find_buckets() with registers of `Queries` fingerprints.
  template <std::uint32_t Queries>
  TD_INLINE static void find_buckets_by(Strip& strip, const IndexView& view) noexcept {
    typedef std::uint64_t Words __attribute__((vector_size(Queries * sizeof(Fingerprint))));
    typedef std::uint32_t Halves __attribute__((vector_size(Queries * sizeof(Fingerprint))));
    static_assert(sizeof(Fingerprint) == sizeof(std::uint64_t) && offsetof(Fingerprint, signature) == 0);
    static_assert(sizeof(Bucket) == 64);
    const Words mask = Words{} + std::uint64_t{view.mask},
                base = Words{} + reinterpret_cast<std::uintptr_t>(view.buckets);
    for (std::uint32_t i = 0; i < strip_queries; i += Queries) {
      Words words;
      std::memcpy(&words, strip.fingerprint + i, sizeof words);
      const Words first = (words >> 32) & mask;
      // As IndexView::other(). The mask removes the upper halves, which are not signatures.
      Halves mixed = reinterpret_cast<Halves>(words) * 0x9E3779B1u;
      mixed ^= mixed >> 15;
      mixed = (mixed | 1u) << view.shard_bits;
      const Words second = first ^ (reinterpret_cast<Words>(mixed) & mask);
      const Words buckets[2] = {base + (first << 6), base + (second << 6)};
      std::memcpy(static_cast<void*>(strip.first + i), &buckets[0], sizeof buckets[0]);
      std::memcpy(static_cast<void*>(strip.second + i), &buckets[1], sizeof buckets[1]);
    }
  }

 private:
  // Compares the item's first 32 bytes, under the mask, with `wanted` and the key. One load reads both words of the
  // item, so that they are of one version: an aligned load of 16 bytes is a single access on every x86 with AVX (Intel
  // SDM volume 3A, 8.1.1; AMD64 manual volume 2, 7.3.2). Inline assembly keeps the compiler from splitting it.
  TD_INLINE static bool has(const Item* item, const char* key16, __m128i wanted, const ItemMask& mask,
                            std::uint64_t& state, std::uint64_t& fixed) noexcept {
    const auto* const halves = reinterpret_cast<const __m128i*>(item);
    __m128i words;
    __asm__ volatile("vmovdqa %1, %0" : "=x"(words) : "m"(*halves));
    const auto with = [](__m128i low, const __m128i* high) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_load_si128(high), 1);
    };
    const __m256i differ =
        _mm256_xor_si256(with(words, halves + 1), with(wanted, reinterpret_cast<const __m128i*>(key16)));
    state = static_cast<std::uint64_t>(_mm_cvtsi128_si64(words));
    fixed = static_cast<std::uint64_t>(_mm_extract_epi64(words, 1));
    return _mm256_testz_si256(differ, _mm256_load_si256(reinterpret_cast<const __m256i*>(&mask))) != 0;
  }
};

}  // namespace tandem::lane
