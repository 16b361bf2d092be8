// Any sequence of operations on a slab list, on all kinds of lanes, and on a map. Input: a byte that chooses the
// fingerprints, then operations of two bytes, a kind and a key.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "index/slab_list/slab_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  using Make = tandem::Fingerprint (*)(std::string_view, std::uint64_t);
  const Make makes[] = {tandem::plain_fingerprint, tandem::few_signatures<3>, tandem::few_signatures<1>};
  for (const tandem::SlabOps* ops : tandem::slab_ops_built()) {
    if (!ops->supported()) continue;
    tandem::SlabModel model(makes[data[0] % 3], ops->name);
    for (std::size_t i = 1; i + 1 < size; i += 2) model.step(data[i], data[i + 1]);
    if (model.problem().empty()) continue;
    std::fprintf(stderr, "%.*s lanes: %s\n", static_cast<int>(ops->name.size()), ops->name.data(),
                 model.problem().c_str());
    std::abort();
  }
  return 0;
}
