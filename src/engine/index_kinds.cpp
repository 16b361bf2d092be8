#include "engine/index_kinds.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/index_kinds-inl.hpp"
#include "index/cuckoo/cuckoo_index.hpp"
#include "index/hash_tree/hash_tree_index.hpp"
#include "index/set_associative/set_index.hpp"
#include "index/slab_list/slab_index.hpp"
#include "task/codes.hpp"

namespace tandem {
namespace {

std::vector<IndexKindRow>& rows() {
  static std::vector<IndexKindRow> all = {
      kind_row<CuckooIndex>(cuckoo_code), kind_row<SetAssociativeIndex>(set_associative_code),
      kind_row<HashTreeIndex>(hash_tree_code), kind_row<SlabListIndex>(slab_list_code)};
  return all;
}

}  // namespace

std::span<const IndexKindRow> index_kinds() noexcept { return rows(); }

const IndexKindRow& index_kind_named(std::string_view name) {
  const auto row = std::ranges::find_if(rows(), [name](const IndexKindRow& r) { return r.code->kind == name; });
  if (row == rows().end()) throw std::invalid_argument("there is no index of kind " + std::string(name));
  return *row;
}

void add_index_kind(const IndexKindRow& row) { rows().push_back(row); }

}  // namespace tandem
