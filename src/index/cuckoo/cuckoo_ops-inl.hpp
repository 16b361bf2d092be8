// The function table of one copy of the algorithm. Included inside a target region, after cuckoo-inl.hpp; TD_LANES
// names the Lanes type, TD_LANES_NAMESPACE the copy.
namespace tandem::TD_LANES_NAMESPACE {

inline void strip_both(IndexView index, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                       const void* items) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    location[i] = search_both(TD_LANES{}, index, f[i]);
    prefetch_line(item_at(items, location[i]));
  }
}
inline void strip_two_pass(IndexView index, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                           const void* items) noexcept {
  constexpr std::uint32_t strip = 32;
  for (std::uint32_t i = 0; i < count; i += strip) {
    const std::uint32_t n = count - i < strip ? count - i : strip;
    const std::uint32_t left = search_first(TD_LANES{}, index, f + i, n, location + i, items);
    search_second(TD_LANES{}, index, f + i, left, location + i, items);
  }
}
inline std::uint32_t strip_first(IndexView index, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                                 const void* items) noexcept {
  return search_first(TD_LANES{}, index, f, count, location, items);
}
inline void strip_second(IndexView index, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                         const void* items) noexcept {
  search_second(TD_LANES{}, index, f, left, location, items);
}
inline void strip_in_turn(IndexView index, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                          const void* items) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    location[i] = search_in_turn(TD_LANES{}, index, f[i]);
    prefetch_line(item_at(items, location[i]));
  }
}
inline BucketMasks probe_bucket(const Bucket* bucket, std::uint32_t signature) noexcept {
  const Probe p = probe(TD_LANES{}, bucket, signature);
  return {p.same, p.empty};
}
inline bool insert_one(IndexView index, Fingerprint f, std::uint32_t location) noexcept {
  return insert(TD_LANES{}, index, f, location);
}
inline bool erase_one(IndexView index, Fingerprint f, std::uint32_t location) noexcept {
  return erase(TD_LANES{}, index, f, location);
}
inline bool replace_changed_one(IndexView index, CellChange change) noexcept {
  return replace_changed(TD_LANES{}, index, change);
}
inline bool insert_changed_one(IndexView index, CellChange change) noexcept {
  return insert_changed(TD_LANES{}, index, change);
}

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
#undef TD_LANES
