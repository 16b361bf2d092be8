// The functions of one copy of the algorithm. Included inside a target region, after slab-inl.hpp; TD_LANES names the
// lanes, TD_LANES_NAMESPACE the copy.
namespace tandem::TD_LANES_NAMESPACE {

inline std::uint32_t strip_lines(SlabView view, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                                 const void* items) noexcept {
  return search_lines(TD_LANES{}, view, f, count, location, items);
}
inline void strip_chains(SlabView view, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                         const void* items) noexcept {
  search_chains(TD_LANES{}, view, f, left, location, items);
}
inline std::uint32_t entries(const Slab* slab, std::uint64_t key) noexcept {
  return entries_with(TD_LANES{}, slab, key);
}

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
#undef TD_LANES
