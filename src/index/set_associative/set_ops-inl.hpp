// The function table of one copy of the algorithm. Included inside a target region, after set-inl.hpp; TD_LANES names
// the lanes, TD_LANES_NAMESPACE the copy.
namespace tandem::TD_LANES_NAMESPACE {

template <unsigned Ways>
std::uint32_t strip_tags(SetView<Ways> view, const Fingerprint* f, std::uint32_t count,
                         std::uint32_t* location) noexcept {
  return search_tags(TD_LANES{}, view, f, count, location);
}
template <unsigned Ways>
void strip_entries(SetView<Ways> view, const Fingerprint* f, std::uint32_t left, std::uint32_t* location,
                   const void* items) noexcept {
  search_entries(TD_LANES{}, view, f, left, location, items);
}
template <unsigned Ways>
void strip_locked(SetView<Ways> view, const Fingerprint* f, std::uint32_t count, std::uint32_t* location,
                  const void* items) noexcept {
  search_locked(TD_LANES{}, view, f, count, location, items, [waiting = SpinWait()]() mutable { waiting.once(); });
}
template <unsigned Ways>
std::uint32_t tagged_ways(const EntrySet<Ways>* set, std::uint32_t signature) noexcept {
  return tagged(TD_LANES{}, set, signature);
}

}  // namespace tandem::TD_LANES_NAMESPACE

#undef TD_LANES_NAMESPACE
#undef TD_LANES
