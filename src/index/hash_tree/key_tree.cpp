#include "index/hash_tree/key_tree.hpp"

#include "index/hash_tree/key_tree-inl.hpp"
#include "index/hash_tree/prefetch_scans-inl.hpp"
#include "index/hash_tree/scan-inl.hpp"
#include "index/hash_tree/split-inl.hpp"

namespace tandem {

template class KeyTree<CellLeaves>;
template class KeyTree<OrderLeaves>;

}  // namespace tandem
