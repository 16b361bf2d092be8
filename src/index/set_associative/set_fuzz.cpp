// Any sequence of operations on a set-associative index, on all kinds of lanes, and on a model that knows each set's
// order of use. Input: one byte of table size and fingerprints, then operations of two bytes, a kind and a key.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "index/set_associative/set_index.hpp"
#include "index/set_associative/set_model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::uint64_t entries = 16u << data[0] % 4;
  using Make = tandem::Fingerprint (*)(std::string_view, std::uint64_t);
  const Make makes[] = {tandem::plain_fingerprint, tandem::few_signatures<3>, tandem::few_signatures<1>};
  const Make make = makes[data[0] / 4 % 3];
  for (const tandem::SetOps16* ops : tandem::set_ops_built()) {
    if (!ops->supported()) continue;
    tandem::SetModel<tandem::SetAssociativeIndex> model(entries, make, ops->name);
    for (std::size_t i = 1; i + 1 < size; i += 2) model.step(data[i], data[i + 1]);
    if (model.problem().empty()) continue;
    std::fprintf(stderr, "%.*s lanes: %s\n", static_cast<int>(ops->name.size()), ops->name.data(),
                 model.problem().c_str());
    std::abort();
  }
  return 0;
}
