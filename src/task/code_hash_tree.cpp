#include "index/hash_tree/hash_tree_index.hpp"
#include "task/code-inl.hpp"

namespace tandem {

const KindCode hash_tree_code = code_of<HashTreeIndex>();

}  // namespace tandem
